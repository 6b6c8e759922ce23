package soak

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// endTime is the time within which the server must end after SIGTERM.
const endTime = 30 * time.Second

// server is the program under test, in its own process.
type server struct {
	cmd     *exec.Cmd
	url     string // URL for clients
	address string // address of url
	metrics string // URL of the metrics, without a path
	cgroup  string // the server's cgroup, in which it creates others; "": no cgroup
	log     *os.File
}

// startServer starts a server that writes only to the directories of the soak. It ends with the test.
func startServer(s *soak) *server {
	s.T.Helper()
	port, err := testutil.FreePort()
	harness.Must(s.T, err)
	srv := &server{metrics: fmt.Sprintf("http://127.0.0.1:%d", port)}
	srv.log, err = os.Create(filepath.Join(s.out, "server.log"))
	harness.Must(s.T, err)
	s.T.Cleanup(func() { _ = srv.log.Close() })
	home := filepath.Join(s.Dir, "home")
	srv.cmd = s.Command(home, s.Program("codex"), "exec-server", "--listen", "ws://127.0.0.1:0",
		"--metrics-listen", strings.TrimPrefix(srv.metrics, "http://"), "--session-ttl", s.ttl.String(),
		"--sandbox-backend", s.backend, "--retain-dir", filepath.Join(home, "detached"), "--log-level", "warn",
		"--max-detached", "256")
	srv.cmd.Env = append(srv.cmd.Env, "TMPDIR="+filepath.Join(s.Dir, "tmp"))
	srv.cmd.Dir, srv.cmd.Stderr = s.Dir, srv.log
	srv.cmd.SysProcAttr.Pdeathsig = syscall.SIGTERM
	if os.Geteuid() == 0 {
		// Use a mount namespace, so that mounts of other programs are not counted.
		srv.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	srv.delegate(s)
	srv.url = harness.StartServer(s.T, srv.cmd, func() {})
	srv.address = strings.TrimPrefix(srv.url, "ws://")
	s.T.Cleanup(srv.end)
	return srv
}

// delegate creates a cgroup in which the server starts, as systemd does with Delegate=yes. An
// ordinary user cannot create one.
func (srv *server) delegate(s *soak) {
	s.T.Helper()
	if os.Geteuid() != 0 {
		return
	}
	path, err := harness.NewCgroup(s.T, "cgroup.subtree_control")
	testutil.Need(s.T, "cgroup of version 2", err, harness.ErrNoController, os.ErrPermission, unix.EROFS)
	srv.cgroup = path
	for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		harness.Must(s.T, s.Own(filepath.Join(path, name)))
	}
	dir, err := os.Open(path)
	harness.Must(s.T, err)
	s.T.Cleanup(func() { _ = dir.Close() })
	srv.cmd.SysProcAttr.UseCgroupFD, srv.cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
}

func (srv *server) pid() int { return srv.cmd.Process.Pid }

// alive reports whether the server still runs.
func (srv *server) alive() bool {
	_, gone := testutil.Gone(srv.pid())
	return !gone
}

// end ends the server.
func (srv *server) end() {
	_ = srv.cmd.Process.Signal(syscall.SIGTERM)
	timer := time.AfterFunc(endTime, func() { _ = srv.cmd.Process.Kill() })
	_ = srv.cmd.Wait()
	timer.Stop()
}
