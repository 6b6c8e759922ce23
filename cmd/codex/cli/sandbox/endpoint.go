package sandbox

import (
	"net"
	"strconv"
	"strings"
	"unicode"
)

// MaxShownDenials bounds the refused hosts that a message names.
const MaxShownDenials = 8

// Endpoint is a host, in its normalised form, and a port that a command wants to reach. The port is 0 for a DNS query.
type Endpoint struct {
	Host string
	Port uint16
}

// String returns the endpoint for display. Characters that are not ASCII are escaped, because letters of
// other scripts make one name look like another.
func (e Endpoint) String() string {
	if e.Port == 0 {
		return visibleHost(e.Host)
	}
	return visibleHost(e.Host) + " port " + strconv.Itoa(int(e.Port))
}

// Option returns the endpoint in the form of --allow-domain and egress policies.
func (e Endpoint) Option() string {
	if e.Port == 0 {
		return e.Host
	}
	return net.JoinHostPort(e.Host, strconv.Itoa(int(e.Port)))
}

// visibleHost returns a normalised host in ASCII. Such a host has no quotation marks and no
// backslashes.
func visibleHost(host string) string {
	quoted := strconv.QuoteToASCII(host)
	return quoted[1 : len(quoted)-1]
}

// RefusedHosts returns a message with the hosts that the network proxy of a command has refused, and the options
// that permit them. The command chooses the names, and users paste options from messages. So the message has an
// option only if no shell interprets characters in it.
func RefusedHosts(refused []Endpoint) string {
	var hosts, options []string
	for _, e := range refused {
		hosts = append(hosts, e.String())
		if strings.IndexFunc(e.Host, hasMeaning) < 0 {
			options = append(options, "--allow-domain "+e.Option())
		}
	}
	text := "the network proxy of the command refused " + strings.Join(hosts, ", ")
	if len(options) == 0 {
		return text + "; to let the command reach them use --allow-domain"
	}
	return text + "; to let the command reach them use " + strings.Join(options, " ")
}

// hasMeaning reports whether a shell may interpret a character of a host.
func hasMeaning(r rune) bool {
	return !unicode.IsLetter(r) && !unicode.IsMark(r) && !unicode.IsDigit(r) && !strings.ContainsRune(".-_:", r)
}
