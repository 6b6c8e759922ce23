//go:build unix

package egress

import (
	"net"

	"golang.org/x/sys/unix"
)

// closePort closes a listener, for all who hold it. A program that this one is
// about to start has a copy for a moment, until it is executed, and would keep
// the port open.
func closePort(l net.Listener) {
	if raw, err := l.(*net.TCPListener).SyscallConn(); err == nil {
		// macOS refuses it, and leaves the copies.
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	_ = l.Close()
}
