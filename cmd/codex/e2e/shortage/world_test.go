package shortage

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// world is a server of an ordinary user, for which the machine has few processes.
type world struct {
	t          *testing.T
	dir        string
	codex      string              // the program, which that user may execute
	self       string              // the test's program, for fork bombs
	workspace  string              // a directory of that user
	credential *syscall.Credential // of that user; nil: that of the test
	server     *exec.Cmd
	log        *harness.Tail
	url        string
}

// newWorld makes the directories of a user that has no processes yet, or of the test's own user if that is not root.
func newWorld(t *testing.T) *world {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "codex-shortage-")
	harness.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	harness.Must(t, os.Chmod(dir, 0o755))
	w := &world{
		t: t, dir: dir, codex: filepath.Join(dir, "codex"), self: filepath.Join(dir, "bomb"),
		workspace: filepath.Join(dir, "workspace"), log: &harness.Tail{},
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", w.log)
		}
	})
	if os.Geteuid() == 0 {
		uid := unusedUser(t)
		w.credential = &syscall.Credential{Uid: uid, Gid: uid}
	}
	self, err := os.Executable()
	harness.Must(t, err)
	harness.Must(t, harness.LinkOrCopy(harness.Codex, w.codex))
	harness.Must(t, harness.LinkOrCopy(self, w.self))
	harness.Must(t, os.Mkdir(w.workspace, 0o755))
	w.own(w.workspace)
	return w
}

// own gives a file to the server's user.
func (w *world) own(path string) {
	w.t.Helper()
	if w.credential != nil {
		harness.Must(w.t, os.Chown(path, int(w.credential.Uid), int(w.credential.Gid)))
	}
}

// firstUser is the first user id that unusedUser tries: above those of people and of services.
const firstUser = 210_000

// unusedUser returns a user id that no process has: the kernel counts the processes of a user for RLIMIT_NPROC.
func unusedUser(t *testing.T) uint32 {
	t.Helper()
	used := make(map[uint32]bool)
	for _, pid := range processes(t) {
		if info, err := os.Stat("/proc/" + pid); err == nil {
			used[info.Sys().(*syscall.Stat_t).Uid] = true
		}
	}
	uid := uint32(firstUser + os.Getpid()%10_000)
	for used[uid] {
		uid++
	}
	return uid
}

// processes returns the ids of all processes.
func processes(t *testing.T) (pids []string) {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	harness.Must(t, err)
	for _, e := range entries {
		if _, err := strconv.Atoi(e.Name()); err == nil {
			pids = append(pids, e.Name())
		}
	}
	return pids
}

// serve starts the server. limit is called with the process that becomes the server, and returns its limit of
// processes; "": it has none of its own.
func (w *world) serve(limit func(w *world, pid int) string) {
	w.t.Helper()
	cmd := exec.Command(w.self, w.codex, "exec-server", "--listen", "ws://127.0.0.1:0", "--retain-dir", filepath.Join(w.workspace, "retain"))
	cmd.Dir = w.workspace
	cmd.Env = []string{
		"PATH=/usr/bin:/bin", "HOME=" + w.workspace, "CODEX_HOME=" + w.workspace, "TMPDIR=" + w.workspace, limitVariable + "=1",
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: w.credential}
	cmd.Stderr = w.log
	in, err := cmd.StdinPipe()
	harness.Must(w.t, err)
	out, err := cmd.StdoutPipe()
	harness.Must(w.t, err)
	harness.Must(w.t, cmd.Start())
	w.server = cmd
	w.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		w.killAll()
		_ = cmd.Wait()
	})
	_, err = fmt.Fprintln(in, limit(w, cmd.Process.Pid))
	harness.Must(w.t, err)
	line, err := bufio.NewReader(out).ReadString('\n')
	harness.Must(w.t, err)
	w.url = strings.TrimSpace(line)
}
