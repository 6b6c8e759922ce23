package egress

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// These variables name upstream proxies; the first usable one counts.
// net/http's own rules differ: it reads the environment once, ignores
// ALL_PROXY, and does not use HTTP_PROXY for tunnels.
var (
	plainUpstream  = []string{"HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"}
	tunnelUpstream = append([]string{"HTTPS_PROXY", "https_proxy"}, plainUpstream...)
)

// upstream returns the proxy for requests to a host, or nil if they go
// to the host itself.
func (x *Proxy) upstream(q Question) *url.URL {
	if !x.policy.config.Upstream || q.Protocol == SOCKS || x.direct(q.Host) {
		return nil
	}
	if x.host.ownPort(q.Port) {
		// This program listens on the port. An upstream proxy on this machine would connect to this
		// program if it resolved the name to a loopback address.
		return nil
	}
	getenv := x.host.opts.Getenv
	except := getenv("NO_PROXY")
	if except == "" {
		except = getenv("no_proxy")
	}
	if exempt(except, q.Host, q.Port) {
		return nil
	}
	names := plainUpstream
	if q.Protocol == Connect {
		names = tunnelUpstream
	}
	for _, name := range names {
		if u := parseUpstream(getenv(name)); u != nil {
			return u
		}
	}
	return nil
}

// ParseTCPUpstream reads the HOST:PORT of Options.TCPUpstream.
func ParseTCPUpstream(text string) (*url.URL, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return nil, err
	}
	number, err := strconv.ParseUint(port, 10, 16)
	_, valid := normalHost(host)
	switch {
	case err != nil || !digits(port):
		return nil, fmt.Errorf("%q is not a port", port)
	case number == 0:
		return nil, errors.New("port must be nonzero")
	case !valid:
		return nil, fmt.Errorf("%q is not a host", host)
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, nil
}

// unreachable returns the error of a host that cannot be reached through Options.TCPUpstream: one that means another machine
// there, or any if the client's policy permits no upstream proxy.
func (x *Proxy) unreachable(host string) error {
	if _, err := netip.ParseAddr(host); err == nil || isLocalhost(host) {
		return errors.New("the mandatory upstream proxy reaches hosts only by name")
	}
	if !x.policy.config.Upstream {
		return errors.New("the policy of the client does not permit the mandatory upstream proxy")
	}
	return nil
}

// direct reports whether a host must not be reached through an upstream proxy, because at that
// proxy the address means another machine.
func (x *Proxy) direct(host string) bool {
	address, err := netip.ParseAddr(host)
	switch {
	case err != nil:
		return isLocalhost(host)
	case address.IsLoopback() || address.IsUnspecified():
		return true
	default:
		return !public(address) && !x.host.opts.PrivateViaUpstream
	}
}

// parseUpstream reads a proxy's URL, whose scheme may be missing. It returns nil
// if it is not the URL of an HTTP proxy.
func parseUpstream(text string) *url.URL {
	text = strings.TrimSpace(text)
	if text == "" {
		return nil
	}
	if !strings.Contains(text, "://") {
		text = "http://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Scheme != "http" || u.Hostname() == "" {
		return nil
	}
	port := u.Port()
	if port == "" {
		port = "80"
	}
	return &url.URL{Scheme: "http", User: u.User, Host: net.JoinHostPort(u.Hostname(), port)}
}

// exempt reports whether a NO_PROXY list contains a host: by name, which
// includes the names below it, by address or by network, with or without a
// port.
func exempt(list, host string, port uint16) bool {
	address, err := netip.ParseAddr(host)
	literal := err == nil
	for entry := range strings.SplitSeq(list, ",") {
		entry = lower(strings.TrimSpace(entry))
		if entry == "*" {
			return true
		}
		if network, err := netip.ParsePrefix(entry); err == nil {
			if literal && network.Contains(address) {
				return true
			}
			continue
		}
		if name, number, err := net.SplitHostPort(entry); err == nil {
			if number != strconv.Itoa(int(port)) {
				continue
			}
			entry = name
		}
		name, ok := normalHost(strings.TrimPrefix(strings.TrimPrefix(entry, "*"), "."))
		if ok && (name == host || !literal && strings.HasSuffix(host, "."+name)) {
			return true
		}
	}
	return false
}
