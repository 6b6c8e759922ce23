package process

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// janitorEnv makes TestFreezeSparesJanitors act as a janitor.
const janitorEnv = "PROCESS_TEST_JANITOR"

// TestFreezeSparesJanitors: a janitor is not stopped and killed together with the program after
// which it cleans up, even before that program has ended.
func TestFreezeSparesJanitors(t *testing.T) {
	if os.Getenv(janitorEnv) != "" {
		fmt.Println(os.Getpid())
		time.Sleep(time.Hour) // until it is killed
		return
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), JanitorName)
	if err := os.Symlink(self, name); err != nil {
		t.Fatal(err)
	}
	cmd, output := session(t, fmt.Sprintf(
		"%s=1 %s -test.run '^TestFreezeSparesJanitors$' & sleep 1000", janitorEnv, name))
	var pid int
	if _, err := fmt.Fscan(output, &pid); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = syscall.Kill(pid, syscall.SIGKILL) })
	spared := 0
	family := freeze(cmd.Process.Pid, func(pid int) bool {
		if isJanitor(pid) {
			spared = pid
		}
		return isJanitor(pid)
	})
	if !family[cmd.Process.Pid] || family[pid] || spared != pid {
		t.Errorf("the janitor %d: stopped %v, spared %d", pid, family, spared)
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if _, rest, _ := strings.Cut(string(stat), ") "); err != nil || strings.HasPrefix(rest, "T") {
		t.Errorf("the janitor is stopped: %q, %v", rest, err)
	}
	for member := range family {
		_ = syscall.Kill(member, syscall.SIGKILL)
	}
}

// janitorOf starts a shell script as a janitor, with its socket as descriptor 3.
func janitorOf(t *testing.T, s *Supervisor, script string) *Janitor {
	t.Helper()
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	socket := os.NewFile(uintptr(fds[1]), "janitor")
	defer socket.Close()
	j, err := s.StartJanitor(Spec{
		Argv: []string{"/bin/sh", "-c", script}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, ExtraFiles: []*os.File{socket},
	}, fds[0])
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// readFromJanitor reads a line from the socket.
func readFromJanitor(socket int) error {
	b := make([]byte, 16)
	n, err := unix.Read(socket, b)
	if err == nil && string(b[:n]) != "ready\n" {
		err = fmt.Errorf("the janitor says %q", b[:n])
	}
	return err
}

// TestSupervisorWaitsForJanitors: when a supervisor is closed, it lets its janitor finish the
// remaining work. The janitor begins with it when the socket is closed.
func TestSupervisorWaitsForJanitors(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	done := filepath.Join(t.TempDir(), "done")
	j := janitorOf(t, s, "echo ready >&3; read x <&3; exec 3>&-; echo done >"+done)
	if err := j.Use(readFromJanitor); err != nil {
		t.Error(err)
	}
	s.Close()
	if text, err := os.ReadFile(done); string(text) != "done\n" {
		t.Errorf("%q, %v: the supervisor did not wait for its janitor", text, err)
	}
	if err := j.Use(func(int) error { return nil }); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a janitor that has ended can be used: %v", err)
	}
	if _, err := s.StartJanitor(Spec{Argv: []string{"/bin/true"}, Dir: "/"}, -1); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
}

// TestJanitorOutlivesItsStarter: a janitor gets no parent-death signal, and the supervisor notices
// if it was killed.
func TestJanitorOutlivesItsStarter(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	spec := Spec{outlives: true}
	if sig := attributes(&spec, -1, nil).Pdeathsig; sig != 0 {
		t.Errorf("a janitor gets signal %d when its starter ends", sig)
	}
	j := janitorOf(t, s, "read x <&3")
	j.Kill()
	await(t, "the end of the janitor", j.ended)
	if err := j.Use(func(int) error { return nil }); !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("a janitor that was killed can be used: %v", err)
	}
}
