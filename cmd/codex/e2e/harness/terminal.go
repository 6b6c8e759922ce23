package harness

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil/faultproxy"
	"github.com/creack/pty"
)

// Alone runs codex to its end. It has no terminal on which it could ask questions.
func Alone(t *testing.T, stdin io.Reader, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(Codex, args...)
	var out, errs bytes.Buffer
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, &out, &errs
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	timer := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

// User acts as a person at a terminal in which codex runs.
type User struct {
	T    *testing.T
	Cmd  *exec.Cmd
	TTY  *os.File
	seen string          // the screen's text after the last text that was expected
	all  strings.Builder // all text that has been on the screen
	Stop *time.Timer
}

func AtTerminal(t *testing.T, args ...string) *User {
	t.Helper()
	return AtTerminalOf(t, Codex, args...)
}

// AtTerminalOf is AtTerminal with another program than codex.
func AtTerminalOf(t *testing.T, name string, args ...string) *User {
	t.Helper()
	u := &User{T: t, Cmd: exec.Command(name, args...)}
	tty, err := pty.StartWithSize(u.Cmd, &pty.Winsize{Rows: 31, Cols: 97})
	Must(t, err)
	u.TTY = tty
	// A browser may act for longer than Patience between two texts on the screen.
	u.Stop = time.AfterFunc(4*Patience, func() { _ = u.Cmd.Process.Kill() })
	t.Cleanup(func() {
		u.Stop.Stop()
		_ = u.Cmd.Process.Kill()
		_ = u.Cmd.Wait()
		_ = tty.Close()
	})
	return u
}

// Expect waits until the screen shows a text.
func (u *User) Expect(want string) {
	u.T.Helper()
	b := make([]byte, 4096)
	for {
		if _, behind, found := strings.Cut(u.seen, want); found {
			u.seen = behind
			return
		}
		n, err := u.TTY.Read(b)
		u.all.Write(b[:n])
		if u.seen += string(b[:n]); err != nil {
			rest, code := u.End()
			u.T.Fatalf("no %q: %q, %v; then %q and exit code %d", want, u.seen, err, strings.TrimPrefix(rest, u.seen), code)
		}
	}
}

// Screen returns all output of the screen so far, as bytes.
func (u *User) Screen() string { return u.all.String() }

func (u *User) Types(keys string) {
	u.T.Helper()
	_, err := u.TTY.WriteString(keys)
	Must(u.T, err)
}

// End waits for codex to end and returns the rest of the screen.
func (u *User) End() (rest string, code int) {
	u.T.Helper()
	text, _ := io.ReadAll(u.TTY)
	_ = u.Cmd.Wait()
	return u.seen + string(text), u.Cmd.ProcessState.ExitCode()
}

// ThroughProxy returns a proxy that can cut the connections to a server, and the URL of the server through the proxy.
func ThroughProxy(t *testing.T, url string) (proxy *faultproxy.Proxy, through string) {
	t.Helper()
	proxy, err := faultproxy.New(context.Background(), Address(url), faultproxy.Plan{})
	Must(t, err)
	t.Cleanup(proxy.Close)
	return proxy, "ws://" + proxy.Addr()
}

// Address returns the HOST:PORT of the URL of a server.
func Address(url string) string { return strings.TrimPrefix(url, "ws://") }

// UpTo waits until the screen shows a text, and returns the output up to the end of that
// text.
func (u *User) UpTo(want string) string {
	u.T.Helper()
	before := u.seen
	for b := make([]byte, 4096); ; {
		if at := strings.Index(before, want); at >= 0 {
			u.seen = before[at+len(want):]
			return before[:at+len(want)]
		}
		n, err := u.TTY.Read(b)
		if before += string(b[:n]); err != nil {
			u.T.Fatalf("no %q: %q, %v", want, before, err)
		}
	}
}
