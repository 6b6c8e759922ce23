package sandbox

import (
	"net"
	"strconv"
)

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
