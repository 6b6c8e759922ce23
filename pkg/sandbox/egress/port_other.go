//go:build !unix

package egress

import "net"

// closePort closes a listener.
func closePort(l net.Listener) { _ = l.Close() }
