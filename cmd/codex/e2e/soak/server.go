package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"codex.internal/pkg/testutil"
)

// endTime is how long the server may take to end after SIGTERM.
const endTime = 30 * time.Second

// server is the program under test, in a process of its own.
type server struct {
	cmd     *exec.Cmd
	url     string // for clients
	address string // of url
	metrics string // URL
	cgroup  string // its own, in which it makes others; "": there is none
	log     *os.File
}

// startServer starts a server that writes to the directories of the soak alone.
func startServer(s *soak) (*server, error) {
	port, err := testutil.FreePort()
	if err != nil {
		return nil, err
	}
	srv := &server{metrics: fmt.Sprintf("http://127.0.0.1:%d/metrics", port)}
	if srv.log, err = os.Create(filepath.Join(s.out, "server.log")); err != nil {
		return nil, err
	}
	srv.cmd = exec.Command(filepath.Join(s.base, "bin/codex"), "exec-server", "--listen", "ws://127.0.0.1:0",
		"--metrics-listen", fmt.Sprintf("127.0.0.1:%d", port), "--session-ttl", s.ttl.String(),
		"--sandbox-backend", s.backend, "--retain-dir", filepath.Join(s.base, "home/detached"), "--log-level", "warn",
		"--max-detached", "256")
	home := filepath.Join(s.base, "home")
	srv.cmd.Env = []string{
		"HOME=" + home, "CODEX_HOME=" + home, "TMPDIR=" + filepath.Join(s.base, "tmp"), "LANG=C.UTF-8",
		"PATH=/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin", "GOTRACEBACK=all",
	}
	srv.cmd.Dir, srv.cmd.Stderr = s.base, srv.log
	srv.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGTERM}
	if os.Geteuid() == 0 {
		// What others on this machine mount meanwhile is not counted.
		srv.cmd.SysProcAttr.Unshareflags = syscall.CLONE_NEWNS
	}
	if s.user >= 0 {
		srv.cmd.SysProcAttr.Credential = &syscall.Credential{Uid: uint32(s.user), Gid: uint32(s.user)}
	}
	dir, err := srv.delegate(s)
	if err == nil {
		err = srv.start()
	}
	if dir != nil {
		_ = dir.Close()
	}
	if err != nil {
		srv.close()
		return nil, fmt.Errorf("start the server: %w", err)
	}
	return srv, nil
}

func (srv *server) start() error {
	out, err := srv.cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := srv.cmd.Start(); err != nil {
		return err
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	address, ok := strings.CutPrefix(strings.TrimSpace(line), "ws://")
	if err != nil || !ok {
		return fmt.Errorf("its first line is %q, %v; see %s", line, err, srv.log.Name())
	}
	srv.url, srv.address = "ws://"+address, address
	return nil
}

// delegate gives the server a cgroup of its own, as systemd does with Delegate=yes. The
// file is its directory, in which the server starts. An ordinary user cannot make one.
func (srv *server) delegate(s *soak) (*os.File, error) {
	if os.Geteuid() != 0 {
		return nil, nil
	}
	root := cgroupMount()
	if root == "" {
		return nil, nil
	}
	path, err := os.MkdirTemp(root, "soak-")
	if err != nil {
		return nil, err
	}
	srv.cgroup = path
	if s.user >= 0 {
		for _, name := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
			if err := os.Chown(filepath.Join(path, name), s.user, s.user); err != nil {
				return nil, err
			}
		}
	}
	dir, err := os.Open(path)
	if err == nil {
		srv.cmd.SysProcAttr.UseCgroupFD, srv.cmd.SysProcAttr.CgroupFD = true, int(dir.Fd())
	}
	return dir, err
}

// cgroupMount returns where cgroup v2 is mounted; "" if it is not.
func cgroupMount() string {
	text, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(text)) {
		head, tail, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(head); len(fields) > 4 && strings.HasPrefix(tail, "cgroup2 ") {
			return fields[4]
		}
	}
	return ""
}

func (srv *server) pid() int { return srv.cmd.Process.Pid }

// alive reports whether the server still runs.
func (srv *server) alive() bool {
	_, gone := testutil.Gone(srv.pid())
	return !gone
}

// close ends the server.
func (srv *server) close() {
	if srv.cmd.Process != nil {
		_ = srv.cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(endTime, func() { _ = srv.cmd.Process.Kill() })
		_ = srv.cmd.Wait()
		timer.Stop()
	}
	if srv.cgroup != "" {
		if err := os.Remove(srv.cgroup); err != nil && !errors.Is(err, os.ErrNotExist) {
			fmt.Fprintln(os.Stderr, "soak:", err)
		}
	}
	_ = srv.log.Close()
}
