package cmdutil

import (
	"log/slog"
	"net"
	"os"
)

// A ServiceManager is told when a service is ready and when it stops, in the protocol of
// systemd's Type=notify: a line in a datagram to the Unix socket that the variable
// NOTIFY_SOCKET names. The zero value, and nil, is none.
type ServiceManager struct {
	socket string
	log    *slog.Logger
}

// notifySocket is the variable that names the socket.
const notifySocket = "NOTIFY_SOCKET"

// FindServiceManager returns the service manager that started this program, and takes
// the variable out of the environment: what this program starts must not speak for it.
func FindServiceManager(log *slog.Logger) *ServiceManager {
	socket := os.Getenv(notifySocket)
	_ = os.Unsetenv(notifySocket)
	return &ServiceManager{socket: socket, log: log}
}

// Ready says that clients can come. It may be called more than once.
func (m *ServiceManager) Ready() { m.tell("READY=1") }

// Stopping says that the program ends.
func (m *ServiceManager) Stopping() { m.tell("STOPPING=1") }

// tell sends a line. If it cannot be sent, the log has the reason: the program works
// without its manager.
func (m *ServiceManager) tell(line string) {
	if m == nil || m.socket == "" {
		return
	}
	// A name that begins with @ is in the abstract namespace, for systemd and for net.
	conn, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: m.socket, Net: "unixgram"})
	if err == nil {
		_, err = conn.Write([]byte(line))
		_ = conn.Close()
	}
	if err != nil {
		m.log.Warn("cannot tell the service manager", "state", line, "error", err)
	}
}
