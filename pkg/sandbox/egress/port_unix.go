//go:build unix

package egress

import (
	"net"

	"golang.org/x/sys/unix"
)

// closePort closes a listener, also for processes that have a copy of its descriptor. A forked
// child of this program has one until it executes its program, and would keep the port open.
func closePort(l net.Listener) {
	if raw, err := l.(*net.TCPListener).SyscallConn(); err == nil {
		// macOS refuses shutdown on a listener, so there the port stays open in the copies.
		_ = raw.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RDWR) })
	}
	_ = l.Close()
}
