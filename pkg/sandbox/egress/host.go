package egress

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// localhost is the name of this machine. Neither this name nor a name below it is ever resolved.
const localhost = "localhost"

// isLocalhost reports whether a normalised host means this machine by its name (RFC
// 6761, section 6.3). The system's resolvers also map names below localhost to this
// machine, so an upstream proxy on this machine would connect to this machine.
func isLocalhost(host string) bool {
	host = strings.TrimSuffix(host, ".localdomain")
	return host == localhost || strings.HasSuffix(host, "."+localhost)
}

// endsInNumber reports whether the last label of a name is a number, decimal or
// hexadecimal, as in 127.1, 2852039166 and 0xa9.0xfe.0xa9.0xfe. No Internet name ends
// like that, and C libraries read such a name as an address (inet_aton).
func endsInNumber(name string) bool {
	label := name[strings.LastIndexByte(name, '.')+1:]
	if hex, found := strings.CutPrefix(label, "0x"); found {
		return strings.Trim(hex, "0123456789abcdef") == ""
	}
	return digits(label)
}

// normalHost returns the form in which a host is compared, reported and asked
// about. It removes surrounding blanks, a final dot and brackets, converts to
// lower case, and shortens addresses. An IPv4-mapped IPv6 address becomes the
// IPv4 address, so that no spelling evades a pattern. ok is false if text is not
// a host.
func normalHost(text string) (host string, ok bool) {
	text = strings.Trim(text, " \t")
	if inner, found := strings.CutPrefix(text, "["); found {
		if text, found = strings.CutSuffix(inner, "]"); !found || !strings.Contains(text, ":") {
			return "", false
		}
	}
	if strings.Contains(text, ":") {
		address, err := netip.ParseAddr(text)
		if err != nil || address.Zone() != "" {
			return "", false
		}
		return address.Unmap().String(), true
	}
	host = lower(strings.TrimSuffix(text, "."))
	return host, validName(host, "*?")
}

// validName reports whether text is a name of non-empty labels that contains none of the characters
// in more and none that have a meaning in URLs.
func validName(text, more string) bool {
	if len(text) > maxHostBytes || !utf8.ValidString(text) {
		return false
	}
	for label := range strings.SplitSeq(text, ".") {
		if label == "" {
			return false
		}
	}
	return !strings.ContainsFunc(text, func(r rune) bool {
		return unicode.IsSpace(r) || unicode.IsControl(r) || strings.ContainsRune(`/#@\:[]%,{}<>"|^;`+"`", r) || strings.ContainsRune(more, r)
	})
}

// lower returns text with its ASCII letters in lower case. Other letters are unchanged, so that two
// different names never become equal.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// reserved are the networks that do not belong to the public Internet. A process must not reach
// them by a public name.
var reserved = func() (list []netip.Prefix) {
	for _, text := range []string{
		"0.0.0.0/8", "10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "169.254.0.0/16", "172.16.0.0/12", "192.0.0.0/24",
		"192.0.2.0/24", "192.168.0.0/16", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24", "224.0.0.0/4", "240.0.0.0/4",
		"2001::/32", "2001:db8::/32", "3fff::/20",
	} {
		list = append(list, netip.MustParsePrefix(text))
	}
	return list
}()

var (
	globalUnicast = netip.MustParsePrefix("2000::/3")
	sixToFour     = netip.MustParsePrefix("2002::/16")
	nat64         = netip.MustParsePrefix("64:ff9b::/96")
	compatible    = netip.MustParsePrefix("::/96")
)

// packed returns the IPv4 address that an IPv6 address contains. A translator in the network may
// forward connections for the IPv6 address to that IPv4 address. ok is false if the IPv6 address
// contains none.
func packed(address netip.Addr) (inner netip.Addr, ok bool) {
	if !address.Is6() {
		return netip.Addr{}, false
	}
	b := address.As16()
	switch {
	case sixToFour.Contains(address):
		return netip.AddrFrom4([4]byte(b[2:6])), true
	case nat64.Contains(address), compatible.Contains(address):
		return netip.AddrFrom4([4]byte(b[12:])), true
	}
	return netip.Addr{}, false
}

// spellings returns the hosts for which a pattern denies a normalised host: the host itself and, if
// it is an IPv6 address that contains an IPv4 address, that IPv4 address.
func spellings(host string) []string {
	if address, err := netip.ParseAddr(host); err == nil {
		if inner, ok := packed(address); ok {
			return []string{host, inner.String()}
		}
	}
	return []string{host}
}

// public reports whether an address belongs to the public Internet. An IPv6 address that contains
// an IPv4 address is public if the IPv4 address is.
func public(address netip.Addr) bool {
	address = address.Unmap()
	if inner, ok := packed(address); ok {
		return public(inner)
	}
	if address.Is6() && !globalUnicast.Contains(address) {
		return false
	}
	for _, network := range reserved {
		if network.Contains(address) {
			return false
		}
	}
	return address.IsValid()
}
