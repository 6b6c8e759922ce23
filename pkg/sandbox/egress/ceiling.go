package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
)

// CeilingConfig is the egress policy of a server's owner. Policies of clients can permit only what
// it permits.
type CeilingConfig struct {
	// Default applies to hosts that no pattern matches. Allow leaves the decision to the client's
	// policy. Deny refuses the hosts. AskFirst asks the client even if its policy allows them.
	Default Permission
	// Allow, Deny and Ask are patterns as ParseEndpoints reads them. A pattern with a port applies
	// to this port only. Deny takes precedence over Ask, and Ask over Allow.
	Allow, Deny, Ask []string
	// Ports are the permitted ports; empty: every port.
	Ports []uint16
	// PrivateAddresses lets a client's policy permit addresses that are not public. Private are patterns, as in Allow, of
	// hosts for which it may do that; they permit nothing by themselves.
	PrivateAddresses bool
	Private          []string
	// Inject are the credentials that proxies add to requests.
	Inject []Injection
}

// AskFirst is the permission of hosts about which the client is always asked.
const AskFirst Permission = "ask"

// Ceiling is a checked CeilingConfig. It does not change. A nil Ceiling permits
// everything.
type Ceiling struct {
	config                  CeilingConfig
	allow, deny, ask, local *Endpoints
	injections              []injection
}

// NewCeiling checks a CeilingConfig.
func NewCeiling(config CeilingConfig) (*Ceiling, error) {
	if config.Default == "" {
		return nil, errors.New("default is missing: it must be allow, ask or deny")
	}
	if !slices.Contains([]Permission{Allow, Deny, AskFirst}, config.Default) {
		return nil, fmt.Errorf("default is %q: it must be allow, ask or deny", config.Default)
	}
	if len(config.Allow)+len(config.Deny)+len(config.Ask)+len(config.Private) > maxPatterns {
		return nil, fmt.Errorf("there are more than %d patterns", maxPatterns)
	}
	if slices.Contains(config.Ports, 0) {
		return nil, fmt.Errorf("ports: 0 is not a valid port")
	}
	c := &Ceiling{config: config}
	for _, list := range []struct {
		name string
		from []string
		to   **Endpoints
	}{{"allow", config.Allow, &c.allow}, {"deny", config.Deny, &c.deny}, {"ask", config.Ask, &c.ask}, {"private", config.Private, &c.local}} {
		parsed, err := ParseEndpoints(list.from)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", list.name, err)
		}
		*list.to = parsed
	}
	var err error
	if c.injections, err = checkInjections(config.Inject); err != nil {
		return nil, err
	}
	return c, nil
}

// private reports whether a client's policy may permit that a normalised host has an address that is not public.
func (c *Ceiling) private(host string, port uint16) bool {
	return c.allPrivate() || c.local.Match(host, port) != ""
}

// allPrivate is private for every host.
func (c *Ceiling) allPrivate() bool { return c == nil || c.config.PrivateAddresses }

// judgeName judges a host whose port is not known yet. It refuses the host only if the host is
// refused on every port.
func (c *Ceiling) judgeName(host string) (refusal *decision, ask bool) {
	if c == nil {
		return nil, false
	}
	if rule := c.deny.every.find(host); rule != "" {
		return c.refuse(ReasonDenied, rule), false
	}
	permission := c.config.Default
	switch {
	case c.ask.every.find(host) != "":
		permission = AskFirst
	case c.allow.matchName(host):
		permission = Allow
	case c.ask.matchName(host):
		permission = AskFirst
	}
	if permission == Deny {
		return c.refuse(ReasonNotAllowed, "default"), false
	}
	return nil, permission == AskFirst
}

func (c *Ceiling) refuse(reason, rule string) *decision {
	d := blocked(RuleServerPolicy, reason, "the server's egress policy: "+rule)
	return &d
}

// denied returns the refusal of a normalised host that a pattern denies, or nil.
func (c *Ceiling) denied(host string, port uint16) *decision {
	for _, spelling := range spellings(host) {
		if rule := c.deny.Match(spelling, port); rule != "" {
			return c.refuse(ReasonDenied, rule)
		}
	}
	return nil
}

// judgeAddress is judge for an address to which a permitted name has resolved. Only rules for
// addresses apply.
func (c *Ceiling) judgeAddress(address netip.Addr, port uint16) (refusal *decision, ask bool) {
	if c == nil {
		return nil, false
	}
	host := address.String()
	return c.denied(host, port), c.ask.Match(host, port) != ""
}

// judge returns a refusal if the host is not permitted. Otherwise it reports whether the client
// must be asked about the host.
func (c *Ceiling) judge(q Question) (refusal *decision, ask bool) {
	if c == nil {
		return nil, false
	}
	if refusal := c.denied(q.Host, q.Port); refusal != nil {
		return refusal, false
	}
	if len(c.config.Ports) > 0 && !slices.Contains(c.config.Ports, q.Port) {
		return c.refuse(ReasonNotAllowed, "ports"), false
	}
	permission := c.config.Default
	switch {
	case c.ask.Match(q.Host, q.Port) != "":
		permission = AskFirst
	case c.allow.Match(q.Host, q.Port) != "":
		permission = Allow
	}
	if permission == Deny {
		return c.refuse(ReasonNotAllowed, "default"), false
	}
	return nil, permission == AskFirst
}
