package egress

import (
	"net/netip"
	"strings"
	"unicode"
	"unicode/utf8"
)

// localhost is the name that means this machine. It is never resolved.
const localhost = "localhost"

// normalHost returns the form in which a host is compared, reported and asked
// about: without blanks around it, the dot at its end and brackets, in lower
// case, and an address in its shortest form; an IPv4 address within IPv6 is that
// IPv4 address, so that no spelling passes by a pattern. ok is false if it is no
// host.
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

// validName reports whether text is a name of non-empty labels. The characters
// that have a meaning in URLs, and more, do not occur in it.
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

// lower returns text with its ASCII letters in lower case. Other letters stay:
// names are not converted, so that no two of them become the same.
func lower(text string) string {
	b := []byte(text)
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// reserved are the networks that are not the public Internet: those that a
// process must not reach by way of a public name.
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

// public reports whether an address belongs to the public Internet. An IPv6
// address in which an IPv4 address is packed leads there, through a translator
// of the network, and counts as that one.
func public(address netip.Addr) bool {
	address = address.Unmap()
	if address.Is6() {
		b := address.As16()
		switch {
		case sixToFour.Contains(address):
			return public(netip.AddrFrom4([4]byte(b[2:6])))
		case nat64.Contains(address), compatible.Contains(address):
			return public(netip.AddrFrom4([4]byte(b[12:])))
		case !globalUnicast.Contains(address):
			return false
		}
	}
	for _, network := range reserved {
		if network.Contains(address) {
			return false
		}
	}
	return address.IsValid()
}
