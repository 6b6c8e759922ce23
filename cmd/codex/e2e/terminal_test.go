//go:build linux

package e2e

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
)

// alone runs codex to its end where there is no terminal to ask on.
func alone(t *testing.T, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(codex, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// user is somebody at a terminal, in which codex runs.
type user struct {
	t    *testing.T
	cmd  *exec.Cmd
	tty  *os.File
	seen string // what is on the screen behind what was expected last
	stop *time.Timer
}

func atTerminal(t *testing.T, args ...string) *user {
	t.Helper()
	return atTerminalOf(t, codex, args...)
}

// atTerminalOf is atTerminal with what starts codex.
func atTerminalOf(t *testing.T, name string, args ...string) *user {
	t.Helper()
	u := &user{t: t, cmd: exec.Command(name, args...)}
	tty, err := pty.StartWithSize(u.cmd, &pty.Winsize{Rows: 31, Cols: 97})
	must(t, err)
	u.tty = tty
	u.stop = time.AfterFunc(patience, func() { _ = u.cmd.Process.Kill() })
	t.Cleanup(func() {
		u.stop.Stop()
		_ = u.cmd.Process.Kill()
		_ = u.cmd.Wait()
		_ = tty.Close()
	})
	return u
}

// expect waits until the screen shows a text.
func (u *user) expect(want string) {
	u.t.Helper()
	b := make([]byte, 4096)
	for {
		if _, behind, found := strings.Cut(u.seen, want); found {
			u.seen = behind
			return
		}
		n, err := u.tty.Read(b)
		if u.seen += string(b[:n]); err != nil {
			u.t.Fatalf("no %q: %q, %v", want, u.seen, err)
		}
	}
}

func (u *user) types(keys string) {
	u.t.Helper()
	_, err := u.tty.WriteString(keys)
	must(u.t, err)
}

// end waits for codex to end and returns the rest of the screen.
func (u *user) end() (rest string, code int) {
	u.t.Helper()
	text, _ := io.ReadAll(u.tty)
	_ = u.cmd.Wait()
	return u.seen + string(text), u.cmd.ProcessState.ExitCode()
}

// cutter passes connections on, and cuts them.
type cutter struct {
	net.Listener
	wg sync.WaitGroup

	mu    sync.Mutex
	to    string
	conns []net.Conn
}

// throughCutter returns a way to a server that can be cut.
func throughCutter(t *testing.T, url string) (*cutter, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	c := &cutter{Listener: l}
	c.lead(url)
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.cut()
		c.wg.Wait()
	})
	return c, "ws://" + l.Addr().String()
}

func (c *cutter) serve() {
	for {
		from, err := c.Accept()
		if err != nil {
			return
		}
		c.mu.Lock()
		to, err := net.Dial("tcp", c.to)
		if err == nil {
			c.conns = append(c.conns, from, to)
		}
		c.mu.Unlock()
		if err != nil {
			_ = from.Close()
			continue
		}
		pass := func(to, from net.Conn) {
			_, _ = io.Copy(to, from)
			_ = to.Close()
		}
		c.wg.Go(func() { pass(to, from) })
		c.wg.Go(func() { pass(from, to) })
	}
}

// lead has the connections to come led to a server.
func (c *cutter) lead(url string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to = strings.TrimPrefix(url, "ws://")
}

// cut ends all connections.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// upTo waits until the screen shows a text, and returns what came up to its end.
func (u *user) upTo(want string) string {
	u.t.Helper()
	before := u.seen
	for b := make([]byte, 4096); ; {
		if at := strings.Index(before, want); at >= 0 {
			u.seen = before[at+len(want):]
			return before[:at+len(want)]
		}
		n, err := u.tty.Read(b)
		if before += string(b[:n]); err != nil {
			u.t.Fatalf("no %q: %q, %v", want, before, err)
		}
	}
}
