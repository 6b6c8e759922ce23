package shortage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// world is a server of an ordinary user, on a machine that permits few processes.
type world struct {
	*harness.Testbed
	t         *testing.T
	workspace string // a directory of that user
	server    *exec.Cmd
	log       *harness.Tail
	url       string
}

// newWorld creates the directories of a user that has no processes yet. If the test does not run as
// root, it uses the test's own user.
func newWorld(t *testing.T) *world {
	t.Helper()
	uid := -1
	if os.Geteuid() == 0 {
		uid = harness.UnusedUser()
	}
	w := &world{Testbed: harness.NewTestbed(t, uid), t: t, log: harness.ShownOnFailure(t)}
	w.workspace = w.Directory("workspace")
	return w
}

// serve starts the server. It calls limit with the process that will exec the server. limit returns the limit
// of processes to set; "": none.
func (w *world) serve(limit func(w *world, pid int) string) {
	w.t.Helper()
	cmd := w.Command(w.workspace, w.Self(), w.Program("codex"), "exec-server", "--listen", "ws://127.0.0.1:0",
		"--retain-dir", filepath.Join(w.workspace, "retain"))
	cmd.Env = append(cmd.Env, limitVariable+"=1")
	cmd.Stderr = w.log
	in, err := cmd.StdinPipe()
	harness.Must(w.t, err)
	w.server = cmd
	w.url = harness.StartServer(w.t, cmd, func() {
		w.t.Cleanup(w.KillAll)
		_, err := fmt.Fprintln(in, limit(w, cmd.Process.Pid))
		harness.Must(w.t, err)
	})
}
