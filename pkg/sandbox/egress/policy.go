package egress

import (
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Permission is the permission of the hosts that match a pattern.
type Permission string

// The permissions. None has the same effect as no pattern.
const (
	None  Permission = "none"
	Allow Permission = "allow"
	Deny  Permission = "deny"
)

// Config is a policy in the form that clients send.
type Config struct {
	// SOCKS5 requests a SOCKS5 proxy in addition to the HTTP proxy.
	SOCKS5 bool
	// Upstream permits the proxies that the server's own environment names.
	Upstream bool
	// Limited permits only GET, HEAD and OPTIONS over plain HTTP.
	Limited bool
	// LocalBinding disables the rules for addresses: only the patterns decide.
	LocalBinding bool
	Domains      map[string]Permission
	// Review lists the patterns of allowed hosts about which the client is still asked.
	Review []string
	// UnixSockets are paths. They are checked but have no effect: on Linux, Codex CLI's proxy does
	// not reach Unix sockets either.
	UnixSockets map[string]Permission
	// AskTime is the longest time that the client takes to answer a question. If it is 0, the
	// client is not asked.
	AskTime time.Duration
}

// Policy is a checked Config. It does not change.
type Policy struct {
	config              Config
	allow, deny, review patterns
}

// NewPolicy checks a Config. Its error names the invalid member of the params.
func NewPolicy(config Config) (*Policy, error) {
	p := &Policy{config: config}
	if len(config.Domains)+len(config.Review) > maxPatterns {
		return nil, fmt.Errorf("a network proxy has at most %d domain patterns", maxPatterns)
	}
	for _, text := range slices.Sorted(maps.Keys(config.Domains)) {
		if err := p.domain(text, config.Domains[text]); err != nil {
			return nil, err
		}
	}
	for _, text := range config.Review {
		parsed, err := parsePattern(text)
		if err == nil {
			err = parsed.checkReach()
		}
		if err != nil {
			return nil, err
		}
		p.review.add(parsed)
	}
	return p, checkSockets(config.UnixSockets)
}

func (p *Policy) domain(text string, permission Permission) error {
	parsed, err := parsePattern(text)
	switch {
	case err != nil:
		return err
	case permission == Deny && parsed.everything():
		return fmt.Errorf("invalid value for network.denied_domains: %s (allowed exact hosts or scoped wildcards like "+
			"*.example.com or **.example.com)", text)
	case permission == Deny:
		p.deny.add(parsed)
		return parsed.checkReach()
	case permission == Allow:
		p.allow.add(parsed)
	}
	return nil
}

func checkSockets(sockets map[string]Permission) error {
	for i, path := range slices.Sorted(maps.Keys(sockets)) {
		if !filepath.IsAbs(path) || strings.ContainsRune(path, 0) {
			return fmt.Errorf("invalid network.allow_unix_sockets[%d]: expected a NUL-free absolute path for Linux, got %q", i, path)
		}
	}
	return nil
}

// errNoPolicy is the error of Start without a policy.
var errNoPolicy = errors.New("a network proxy needs a policy")
