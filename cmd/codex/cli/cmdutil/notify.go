package cmdutil

import (
	"context"
	"log/slog"
	"net"
	"os"
	"strconv"
	"time"
)

// ServiceManager informs a service manager such as systemd when a service is ready and when it stops. The protocol
// is that of Type=notify: a line in a datagram to the Unix socket in the variable NOTIFY_SOCKET. The zero value
// and nil do nothing.
type ServiceManager struct {
	socket   string
	watchdog time.Duration // the manager restarts a program that is silent for so long; 0: never
	log      *slog.Logger
}

// notifySocket is the variable that names the socket. watchdogTime has the microseconds of WatchdogSec, which are meant for the
// process in watchdogPID.
const (
	notifySocket = "NOTIFY_SOCKET"
	watchdogTime = "WATCHDOG_USEC"
	watchdogPID  = "WATCHDOG_PID"
)

// serviceVariables are the variables by which a service manager speaks to this program alone: where to send messages, which
// descriptors are listeners, where the log goes.
var serviceVariables = []string{
	notifySocket, watchdogTime, watchdogPID, "LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES", "LISTEN_PIDFDID", journalStream,
}

// FindServiceManager returns the service manager that started this program, and removes its variables from the
// environment: a child process could send messages in the name of this program, or take its own descriptors for listeners.
func FindServiceManager(log *slog.Logger) *ServiceManager {
	m := &ServiceManager{socket: os.Getenv(notifySocket), log: log}
	if usec, err := strconv.ParseInt(os.Getenv(watchdogTime), 10, 64); err == nil && os.Getenv(watchdogPID) == strconv.Itoa(os.Getpid()) {
		m.watchdog = time.Duration(usec) * time.Microsecond
	}
	for _, name := range serviceVariables {
		_ = os.Unsetenv(name)
	}
	return m
}

// Tend reports, twice in the time of WatchdogSec, that the program still works, until stop is called. Programs
// call stop after their shutdown, which may take longer.
func (m *ServiceManager) Tend() (stop func()) {
	if m == nil || m.watchdog <= 0 {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.routineTend(ctx)
	}()
	return func() {
		cancel()
		<-done
	}
}

func (m *ServiceManager) routineTend(ctx context.Context) {
	tick := time.NewTicker(m.watchdog / 2)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			m.tell("WATCHDOG=1")
		case <-ctx.Done():
			return
		}
	}
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
