package tunnel

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// lines reads the output of a command, one line at a time.
type lines struct {
	t testing.TB
	r *bufio.Reader
}

// startLines starts a command whose standard error is read as lines.
func startLines(t *testing.T, cmd *exec.Cmd) *lines {
	t.Helper()
	errs, err := cmd.StderrPipe()
	harness.Must(t, err)
	harness.Must(t, cmd.Start())
	stop := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() }) // end a test that waits for a line in vain
	t.Cleanup(func() {
		stop.Stop()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &lines{t, bufio.NewReader(errs)}
}

// await returns the next message of codex, which must contain a text.
func (l *lines) await(text string) string {
	l.t.Helper()
	line, err := l.r.ReadString('\n')
	for err == nil && !strings.HasPrefix(line, "codex: ") { // skip lines of a server at the other end of a pipe
		line, err = l.r.ReadString('\n')
	}
	if err != nil || !strings.Contains(line, text) {
		l.t.Fatalf("it says %q, %v, and not %q", line, err, text)
	}
	return line
}

// awaitForward returns the local address of an automatically forwarded port.
func (l *lines) awaitForward(port uint16) string {
	l.t.Helper()
	line := l.await(fmt.Sprintf(" leads to port %d of ", port))
	return strings.Fields(line)[1]
}

// greeting returns the text that a local address sends.
func greeting(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.DialTimeout("tcp", address, 10*time.Second)
	harness.Must(t, err)
	defer conn.Close()
	text, err := io.ReadAll(conn)
	harness.Must(t, err)
	return string(text)
}

// TestForwardAuto: processes of another session open ports, in a sandbox and outside. The client
// forwards them.
func TestForwardAuto(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	c := dial(t, url)
	cmd := exec.Command(harness.Codex, "remote", "--url", url, "forward", "--auto")
	said := startLines(t, cmd)
	free := freePort(t)
	confined := greeter(t, c, "confined", fmt.Sprintf("127.0.0.1:%d", free))
	here := said.awaitForward(free)
	if here != fmt.Sprintf("localhost:%d", free) {
		t.Errorf("port %d, which is free here, is at %s", free, here)
	}
	if got := greeting(t, here); got != fmt.Sprintf("hello from 127.0.0.1:%d", free) {
		t.Errorf("got %q, want %q", got, fmt.Sprintf("hello from 127.0.0.1:%d", free))
	}
	port := freePort(t)
	plain := plainGreeter(t, c, "plain", fmt.Sprintf("127.0.0.2:%d", port))
	there := said.awaitForward(port)
	if got := greeting(t, there); got != fmt.Sprintf("hello from 127.0.0.2:%d", port) {
		t.Errorf("got %q, want %q", got, fmt.Sprintf("hello from 127.0.0.2:%d", port))
	}
	harness.Must(t, confined.Stdin(t.Context()).Close())
	said.await(here + " is closed")
	awaitRefusal(t, here)
	harness.Must(t, plain.Stdin(t.Context()).Close())
	said.await(there + " is closed")
	harness.Must(t, cmd.Process.Signal(syscall.SIGINT))
	_ = cmd.Wait()
	if status := cmd.ProcessState.Sys().(syscall.WaitStatus); !status.Signaled() || status.Signal() != syscall.SIGINT {
		t.Errorf("an interrupted command ends with %v", cmd.ProcessState)
	}
}

// TestForwardAutoTaken: the port's number is already in use on the client's machine.
func TestForwardAutoTaken(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	_, url := harness.Server(t)
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	defer taken.Close()
	port := uint16(taken.Addr().(*net.TCPAddr).Port)
	self, err := os.Executable()
	harness.Must(t, err)
	workspace, _ := harness.Places(t)
	cmd := exec.Command(harness.Codex, "remote", "run", "--url", url, "-L", "auto", "--sandbox", "workspace-write", "--cwd", workspace,
		"--", self, "greet", fmt.Sprintf("127.0.0.1:%d", port))
	in, err := cmd.StdinPipe()
	harness.Must(t, err)
	said := startLines(t, cmd)
	here := said.awaitForward(port)
	if here == fmt.Sprintf("localhost:%d", port) {
		t.Errorf("it is forwarded from %s, which is taken", here)
	}
	if got := greeting(t, here); got != fmt.Sprintf("hello from 127.0.0.1:%d", port) {
		t.Errorf("got %q, want %q", got, fmt.Sprintf("hello from 127.0.0.1:%d", port))
	}
	harness.Must(t, in.Close())
	harness.Must(t, cmd.Wait())
	awaitRefusal(t, here)
}

// TestAutoOverEveryWay forwards a command's port over each kind of connection to a server.
func TestAutoOverEveryWay(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	harness.Must(t, err)
	for name, way := range ways(t) {
		t.Run(name, func(t *testing.T) {
			port := freePort(t)
			cmd := exec.Command(harness.Codex, append(append([]string{"remote"}, way[0]...), "run", "-L", "auto", "--", self, "greet", fmt.Sprintf("127.0.0.1:%d", port))...)
			cmd.Env = append(os.Environ(), way[1]...)
			in, err := cmd.StdinPipe()
			harness.Must(t, err)
			said := startLines(t, cmd)
			if got := greeting(t, said.awaitForward(port)); got != fmt.Sprintf("hello from 127.0.0.1:%d", port) {
				t.Errorf("got %q, want %q", got, fmt.Sprintf("hello from 127.0.0.1:%d", port))
			}
			harness.Must(t, in.Close())
			harness.Must(t, cmd.Wait())

			if name == "stdio" {
				return // each client has its own server
			}
			all := exec.Command(harness.Codex, append(append([]string{"remote"}, way[0]...), "forward", "--auto")...)
			all.Env = append(os.Environ(), way[1]...)
			told := startLines(t, all)
			port = freePort(t)
			other := exec.Command(harness.Codex, append(append([]string{"remote"}, way[0]...), "run", "--", self, "greet", fmt.Sprintf("127.0.0.1:%d", port))...)
			other.Env = append(os.Environ(), way[1]...)
			in, err = other.StdinPipe()
			harness.Must(t, err)
			startLines(t, other)
			if got := greeting(t, told.awaitForward(port)); got != fmt.Sprintf("hello from 127.0.0.1:%d", port) {
				t.Errorf("another session: %q", got)
			}
			harness.Must(t, in.Close())
			harness.Must(t, other.Wait())
		})
	}
}
