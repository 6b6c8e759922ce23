package launcher

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/host/warmstart"
	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// calmTries bounds how often a test is tried in which a sandbox that was made ahead must be used:
// any mount that another program makes on the machine meanwhile keeps it from that.
const calmTries = 8

// ahead is a launcher that has made a sandbox ahead, for a test.
type ahead struct {
	t      *testing.T
	cmd    *exec.Cmd
	socket int
	init   int
	args   []string
	env    string
	files  []int // further descriptors, from 4
}

// prepareFor has a launcher prepare a sandbox for the arguments.
func prepareFor(t *testing.T, args ...string) *ahead {
	t.Helper()
	machine.NeedBackend(t, machine.Namespaces)
	cmd, socket := waiting(t)
	a := &ahead{t: t, cmd: cmd, socket: socket, args: args, env: "PATH=/usr/bin:/bin\x00"}
	t.Cleanup(func() { _ = unix.Close(a.socket) })
	order := a.order("true")
	order.Prepare = true
	if err := warmstart.Send(socket, order); err != nil {
		t.Fatal(err)
	}
	if a.init = onlyChild(t, cmd.Process.Pid); a.init == 0 {
		t.Fatal("the launcher has no init")
	}
	return a
}

// onlyChild returns the process id of the last child of a process; 0: it has none.
func onlyChild(t *testing.T, pid int) (child int) {
	t.Helper()
	tasks, err := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range tasks {
		text, _ := os.ReadFile(name)
		for word := range strings.FieldsSeq(string(text)) {
			child, _ = strconv.Atoi(word)
		}
	}
	return child
}

func (a *ahead) order(script string) *warmstart.Order {
	null, err := os.Open(os.DevNull)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { _ = null.Close() })
	fd := int(null.Fd())
	args := append([]string{"--backend", "namespaces", "--supervised", "--env-fd", "3"}, a.args...)
	return &warmstart.Order{
		Args:  append(args, "--", "sh", "-c", script),
		Files: append([]int{fd, fd, fd, int(memory(a.t, a.env).Fd())}, a.files...),
	}
}

// run runs a script by the launcher, and returns its output and whether it ran in the
// sandbox that was made ahead. The launcher has ended then.
func (a *ahead) run(script string) (output string, used bool) {
	a.t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		a.t.Fatal(err)
	}
	defer r.Close()
	was, release := a.rootMount()
	defer release()
	order := a.order(`sed -n '\|^[^ ]* [^ ]* [^ ]* [^ ]* / |{s/ .*//;p;q}' /proc/self/mountinfo; ` + script)
	order.Files[1], order.Files[2] = int(w.Fd()), int(w.Fd())
	err = warmstart.Send(a.socket, order)
	_ = w.Close()
	if err != nil {
		a.t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		a.t.Fatal(err)
	}
	_ = a.cmd.Wait()
	is, output, _ := strings.Cut(string(text), "\n")
	return output, was != "" && is == was
}

// rootMount returns the number of the mount on / in the view that was made ahead, or "" if its init has ended.
// No other mount gets this number before release is called. The links in /proc/PID/ns name the view too, but
// only root can read those of the init, which is not dumpable.
func (a *ahead) rootMount() (id string, release func()) {
	a.t.Helper()
	if a.init == 0 {
		return "", func() {}
	}
	f, err := os.Open(fmt.Sprintf("/proc/%d/mountinfo", a.init))
	if err != nil {
		if stat, gone := testutil.Gone(a.init); !gone {
			a.t.Fatalf("%v: %s", err, stat)
		}
		return "", func() {}
	}
	// The namespace and its mounts live as long as the file is open.
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if fields := strings.Fields(lines.Text()); fields[4] == "/" {
			return fields[0], func() { _ = f.Close() }
		}
	}
	a.t.Fatal("the view that was made ahead has no mount on /")
	return "", nil
}

// initTime is how long the end of an init is waited for at most.
const initTime = 10 * time.Second

// endsInit does what must end the init, and waits for that.
func (a *ahead) endsInit(f func()) {
	a.t.Helper()
	fd, err := unix.PidfdOpen(a.init, 0)
	if err != nil {
		a.t.Fatal(err)
	}
	defer unix.Close(fd)
	f()
	ended := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
	n, err := unix.Poll(ended, int(initTime/time.Millisecond))
	for errors.Is(err, unix.EINTR) {
		n, err = unix.Poll(ended, int(initTime/time.Millisecond))
	}
	if n != 1 {
		a.t.Errorf("the init lives on: %d, %v", n, err)
	}
}

// withJanitor has the order give the launcher a connection to a janitor, as a server does.
func (a *ahead) withJanitor() {
	a.t.Helper()
	ours, theirs, err := sandbox.JanitorPair()
	if err != nil {
		a.t.Fatal(err)
	}
	socket := os.NewFile(uintptr(theirs), "janitor")
	defer socket.Close()
	cmd := launcherCommand(a.t, "--janitor-socket-fd", "3")
	cmd.ExtraFiles = []*os.File{socket}
	if err := cmd.Start(); err != nil {
		a.t.Fatal(err)
	}
	connection := -1
	if err = sandbox.AwaitJanitor(ours); err == nil {
		connection, err = sandbox.ConnectJanitor(ours)
	}
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() {
		_, _ = unix.Close(connection), unix.Close(ours)
		_ = cmd.Wait()
	})
	a.args, a.files = append([]string{"--janitor-fd", "4"}, a.args...), []int{connection}
}

// profileText is a permission profile with entries PATH=ACCESS, beside the root for reading.
func profileText(entries ...string) string {
	all := `{"path":{"type":"special","value":{"kind":"root"}},"access":"read"}`
	for _, e := range entries {
		name, access, _ := strings.Cut(e, "=")
		all += fmt.Sprintf(`,{"path":{"type":"path","path":%q},"access":%q}`, name, access)
	}
	return `{"type":"managed","file_system":{"type":"restricted","entries":[` + all + `]},"network":"restricted"}`
}
