package cmdutil

import (
	"log/slog"
	"net"
	"os"
)

// ServiceManager informs a service manager such as systemd when a service is ready and when it stops. The protocol
// is that of Type=notify: a line in a datagram to the Unix socket in the variable NOTIFY_SOCKET. The zero value
// and nil do nothing.
type ServiceManager struct {
	socket string
	log    *slog.Logger
}

// notifySocket is the variable that names the socket.
const notifySocket = "NOTIFY_SOCKET"

// serviceVariables are the variables by which a service manager speaks to this program alone: where to send messages, which
// descriptors are listeners, where the log goes.
var serviceVariables = []string{
	notifySocket, "WATCHDOG_USEC", "WATCHDOG_PID", "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID", "JOURNAL_STREAM",
}

// FindServiceManager returns the service manager that started this program, and removes its variables from the
// environment: a child process could send messages in the name of this program, or take its own descriptors for listeners.
func FindServiceManager(log *slog.Logger) *ServiceManager {
	socket := os.Getenv(notifySocket)
	for _, name := range serviceVariables {
		_ = os.Unsetenv(name)
	}
	return &ServiceManager{socket: socket, log: log}
}

// Ready reports that clients can connect. It may be called more than once.
func (m *ServiceManager) Ready() { m.tell("READY=1") }

// Stopping reports that the program shuts down.
func (m *ServiceManager) Stopping() { m.tell("STOPPING=1") }

// tell sends a line. If that fails, it logs the error, because the program works without its
// service manager.
func (m *ServiceManager) tell(line string) {
	if m == nil || m.socket == "" {
		return
	}
	// Both systemd and package net write @ before names of the abstract namespace.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(line))
		_ = conn.Close()
	}
	if err != nil {
		m.log.Warn("cannot tell the service manager", "state", line, "error", err)
	}
}
