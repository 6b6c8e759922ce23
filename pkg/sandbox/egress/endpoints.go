package egress

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Endpoints are patterns of hosts. Each applies to every port or, as in "*.example.com:443", to one
// port. They do not change.
//
// A Policy has no ports, because the domains of the protocol have none. A caller that needs ports
// passes three things to the Policy: the patterns without ports (Domains), the patterns of hosts to
// ask about, which are those with a port (Review), and a function that answers the questions with
// Match.
type Endpoints struct {
	texts, hosts []string // as given, and without the port
	every        patterns
	byPort       map[uint16]*patterns
}

// ParseEndpoints reads at most maxPatterns patterns. The error names the first
// malformed one.
func ParseEndpoints(texts []string) (*Endpoints, error) {
	if len(texts) > maxPatterns {
		return nil, fmt.Errorf("there are more than %d patterns", maxPatterns)
	}
	e := &Endpoints{texts: slices.Clone(texts), byPort: make(map[uint16]*patterns)}
	for _, text := range texts {
		host, port, err := splitPort(text)
		if err != nil {
			return nil, err
		}
		parsed, err := parsePattern(host)
		if err == nil {
			err = parsed.checkReach()
		}
		if err != nil {
			return nil, err
		}
		e.hosts = append(e.hosts, host)
		list := &e.every
		if port != 0 {
			if list = e.byPort[port]; list == nil {
				list = &patterns{}
				e.byPort[port] = list
			}
		}
		list.add(parsed)
	}
	return e, nil
}

// Any reports whether there are any patterns.
func (e *Endpoints) Any() bool { return len(e.hosts) > 0 }

// splitPort cuts the port off a pattern. The port is 0 if the pattern has none, as in an IPv6
// address without brackets.
func splitPort(text string) (host string, port uint16, err error) {
	text = strings.Trim(text, " \t")
	if _, err := netip.ParseAddr(text); err == nil {
		return text, 0, nil
	}
	at := strings.LastIndexByte(text, ':')
	if at < 0 || strings.HasSuffix(text, "]") {
		return text, 0, nil
	}
	n, err := strconv.ParseUint(text[at+1:], 10, 16)
	if err != nil || n == 0 || strings.Contains(text[:at], ":") && text[at-1] != ']' {
		return "", 0, fmt.Errorf("unsupported domain pattern syntax: %s: the colon must be followed by a port from 1 to 65535", text)
	}
	return text[:at], uint16(n), nil
}

// Match returns the pattern that permits a normalised host on a port, or "".
func (e *Endpoints) Match(host string, port uint16) string {
	if rule := e.every.find(host); rule != "" {
		return rule
	}
	if list := e.byPort[port]; list != nil {
		if rule := list.find(host); rule != "" {
			return rule + ":" + strconv.Itoa(int(port))
		}
	}
	return ""
}

// matchName reports whether a normalised host is permitted on any port.
func (e *Endpoints) matchName(host string) bool {
	if e.every.find(host) != "" {
		return true
	}
	for _, list := range e.byPort {
		if list.find(host) != "" {
			return true
		}
	}
	return false
}

// Domains returns the patterns without their ports, for Config.Domains.
func (e *Endpoints) Domains() map[string]Permission {
	domains := make(map[string]Permission, len(e.hosts))
	for _, host := range e.hosts {
		domains[host] = Allow
	}
	return domains
}

// Review returns the patterns that have a port, without it, for Config.Review.
func (e *Endpoints) Review() []string {
	var review []string
	for i, host := range e.hosts {
		if host != strings.Trim(e.texts[i], " \t") {
			review = append(review, host)
		}
	}
	return review
}

// NormalHost returns the form of a host that questions, reports and Match use. ok is false if text
// is not a host.
func NormalHost(text string) (host string, ok bool) { return normalHost(text) }
