//go:build linux

package cmdutil

import (
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// TestServiceManager acts as the service manager.
func TestServiceManager(t *testing.T) {
	abstract := "@codex-notify-" + filepath.Base(t.TempDir()) + "-" + filepath.Base(filepath.Dir(t.TempDir()))
	for name, socket := range map[string]string{"path": filepath.Join(t.TempDir(), "notify"), "abstract": abstract} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, name := range serviceVariables {
				t.Setenv(name, "1")
			}
			t.Setenv(notifySocket, socket)
			t.Setenv(watchdogTime, "1000")
			t.Setenv(watchdogPID, strconv.Itoa(os.Getpid()))
			m := FindServiceManager(slog.New(slog.DiscardHandler))
			for _, name := range serviceVariables {
				if _, ok := os.LookupEnv(name); ok {
					t.Errorf("programs that are started get %s", name)
				}
			}
			m.Ready()
			m.Stopping()
			defer m.Tend()()
			for _, want := range []string{"READY=1", "STOPPING=1", "WATCHDOG=1", "WATCHDOG=1"} {
				buf := make([]byte, 64)
				n, err := conn.Read(buf)
				if err != nil || string(buf[:n]) != want {
					t.Errorf("got %q, %v; want %s", buf[:n], err, want)
				}
			}
		})
	}
	t.Setenv(notifySocket, "")
	FindServiceManager(slog.New(slog.DiscardHandler)).Ready()
}
