//go:build linux

package launcher

import (
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPreparedAndSignals: a signal that comes to the launcher's group while a sandbox waits, and that
// does not end the launcher, does not reach the command of a later order. One that comes then does.
func TestPreparedAndSignals(t *testing.T) {
	const passed = "trap 'echo passed; exit 3' USR1; kill -USR1 1; while :; do :; done"
	for _, sig := range []syscall.Signal{unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT, orphaned} {
		for _, tt := range []struct{ script, want string }{{"sleep 0.1; echo end", "end\n"}, {passed, "passed\n"}} {
			got, used := "", false
			for try := 0; try < calmTries && !used; try++ {
				a := prepareFor(t, "--read-only", "--sandbox-policy-cwd", "/")
				for _, pid := range []int{a.init, a.cmd.Process.Pid} {
					if err := unix.Kill(pid, sig); err != nil {
						t.Fatal(err)
					}
				}
				got, used = a.run(tt.script)
			}
			if !used || got != tt.want {
				t.Errorf("%v before the order, used %v: %q, want %q", sig, used, got, tt.want)
			}
		}
	}
}
