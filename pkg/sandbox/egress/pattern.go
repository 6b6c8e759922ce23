package egress

import (
	"fmt"
	"net/netip"
	"strings"
	"unicode"
)

// pattern is one pattern of a policy's domains (docs/spec/network.md §4.1).
type pattern struct {
	text string // normalised
	glob bool   // it has wildcards
	apex bool   // `**.`: text without its first three bytes matches too
}

// everything reports whether the pattern matches every host.
func (p pattern) everything() bool { return p.text == "*" || p.apex && p.text == "*.*" }

// match reports whether the pattern matches a normalised host.
func (p pattern) match(host string) bool {
	if !p.glob {
		return p.text == host
	}
	return glob(p.text, host) || p.apex && glob(p.text[len("*."):], host)
}

// parsePattern parses a pattern. It drops a port.
func parsePattern(text string) (pattern, error) {
	body := strings.Trim(text, " \t")
	syntax := fmt.Errorf("unsupported domain pattern syntax: %s", text)
	switch {
	case body == "":
		return pattern{}, fmt.Errorf("domain pattern is empty")
	case strings.ContainsAny(body, "/{}"):
		return pattern{}, syntax
	case body == "[*]":
		body = "*"
	}
	if strings.ContainsAny(body, "[]") {
		return bracketed(body, text, syntax)
	}
	if address, err := netip.ParseAddr(body); err == nil && address.Zone() == "" {
		return pattern{text: address.Unmap().String()}, nil
	}
	if host, port, found := strings.Cut(body, ":"); found {
		if host == "" || !digits(port) {
			return pattern{}, syntax
		}
		body = host
	}
	p := pattern{text: lower(strings.TrimSuffix(body, "."))}
	if rest, found := strings.CutPrefix(p.text, "**."); found {
		p.text, p.apex = "*."+rest, true
	}
	switch {
	case strings.Contains(p.text, "**"):
		return pattern{}, fmt.Errorf("unsupported repeated wildcard: %s", text)
	case !validName(p.text, ""):
		return pattern{}, syntax
	}
	p.glob = strings.ContainsAny(p.text, "*?")
	return p, nil
}

// bracketed parses an IPv6 address in brackets, with or without a port.
func bracketed(body, text string, syntax error) (pattern, error) {
	brackets := fmt.Errorf("brackets are only supported for IPv6 literals or [*]: %s", text)
	inner, found := strings.CutPrefix(body, "[")
	if !found {
		return pattern{}, brackets
	}
	inner, port, found := strings.Cut(inner, "]")
	if !found {
		return pattern{}, brackets
	}
	if port != "" && (port[0] != ':' || !digits(port[1:])) {
		return pattern{}, syntax
	}
	address, err := netip.ParseAddr(inner)
	switch {
	case inner == "*":
		return pattern{text: "*", glob: true}, nil
	case err != nil || !address.Is6() || address.Zone() != "":
		return pattern{}, brackets
	}
	return pattern{text: address.Unmap().String()}, nil
}

// checkReach returns an error for a pattern that matches no host in the spelling that programs use.
// An owner who wrote such a pattern to deny a host would deny nothing.
func (p pattern) checkReach() error {
	label := p.text[strings.LastIndexByte(p.text, '.')+1:]
	_, err := netip.ParseAddr(p.text)
	switch {
	case strings.ContainsFunc(p.text, func(r rune) bool { return r > unicode.MaxASCII }):
		return fmt.Errorf("the pattern %q matches nothing: programs send a name with such letters in its ASCII form; write that, as in xn--bcher-kva.example",
			p.text)
	case endsInNumber(p.text) && (!p.glob && err != nil || !digits(label) || len(label) > 1 && label[0] == '0'):
		return fmt.Errorf("the pattern %q matches nothing: addresses are compared in their shortest form; write it as in 192.0.2.7", p.text)
	}
	return nil
}

func digits(text string) bool {
	return text != "" && strings.Trim(text, "0123456789") == ""
}

// glob reports whether pattern matches all of text. In pattern, `*` matches any run of bytes and
// `?` any one byte. It takes at most len(pattern) x len(text) steps.
func glob(pattern, text string) bool {
	p, t, star, mark := 0, 0, -1, 0
	for t < len(text) {
		switch {
		case p < len(pattern) && pattern[p] == '*':
			star, mark = p, t
			p++
		case p < len(pattern) && (pattern[p] == '?' || pattern[p] == text[t]):
			p++
			t++
		case star >= 0:
			mark++
			p, t = star+1, mark
		default:
			return false
		}
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// patterns are the patterns of one list.
type patterns struct {
	exact map[string]bool
	globs []pattern
}

func (l *patterns) add(p pattern) {
	if p.glob {
		l.globs = append(l.globs, p)
		return
	}
	if l.exact == nil {
		l.exact = make(map[string]bool)
	}
	l.exact[p.text] = true
}

// find returns the pattern that matches a host, or "". An exact pattern takes precedence over
// others.
func (l *patterns) find(host string) string {
	if l.exact[host] {
		return host
	}
	for _, p := range l.globs {
		if p.match(host) {
			if p.apex {
				return "*" + p.text
			}
			return p.text
		}
	}
	return ""
}
