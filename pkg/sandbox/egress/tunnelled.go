package egress

import (
	"errors"
	"fmt"
	"net/netip"
)

// PermitsTunnel returns an error if the owner does not permit the server to connect to a host and
// port for a client (docs/spec/wire.md §11.6). It permits a host about which the ceiling would ask
// the client, because the client itself makes the request. It refuses hosts of this machine only if
// a pattern denies them. A nil Ceiling permits everything.
func (c *Ceiling) PermitsTunnel(host string, port uint16) error {
	if c == nil {
		return nil
	}
	name, ok := normalHost(host)
	if !ok {
		return errors.New("not the name of a host")
	}
	if address, err := netip.ParseAddr(name); err == nil {
		return c.PermitsAddress(netip.AddrPortFrom(address, port), host)
	}
	if isLocalhost(name) {
		return c.denies(name, port)
	}
	if endsInNumber(name) {
		return errors.New("the name is a number, which resolvers treat as an address")
	}
	if refusal, _ := c.judge(Question{Host: name, Port: port}); refusal != nil {
		return errors.New("denied by " + refusal.rule)
	}
	return nil
}

// PermitsAddress is PermitsTunnel for an address to which host has resolved. host may be the
// address itself.
func (c *Ceiling) PermitsAddress(to netip.AddrPort, host string) error {
	if c == nil {
		return nil
	}
	address := to.Addr().Unmap().WithZone("")
	name, _ := normalHost(host)
	_, err := netip.ParseAddr(name)
	literal := err == nil
	switch {
	case (address.IsLoopback() || address.IsUnspecified()) && (literal || isLocalhost(name)):
		return c.denies(address.String(), to.Port())
	case !public(address) && !c.private(name, to.Port()):
		return fmt.Errorf("denied by the server's egress policy: %s is not a public address", address)
	case literal:
		if refusal, _ := c.judge(Question{Host: address.String(), Port: to.Port()}); refusal != nil {
			return errors.New("denied by " + refusal.rule)
		}
		return nil
	default: // the name was judged
		return c.denies(address.String(), to.Port())
	}
}

// denies returns an error if a pattern denies a normalised host.
func (c *Ceiling) denies(host string, port uint16) error {
	if refusal := c.denied(host, port); refusal != nil {
		return errors.New("denied by " + refusal.rule)
	}
	return nil
}
