//go:build linux

package execclient_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// sh returns a command that runs a script.
func sh(client *execclient.Client, script string) *execclient.Cmd {
	return client.Command("/bin/sh", "-c", script)
}

func shContext(ctx context.Context, client *execclient.Client, script string) *execclient.Cmd {
	return client.CommandContext(ctx, "/bin/sh", "-c", script)
}

func TestCmdRun(t *testing.T) {
	client, _ := connect(t)
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CMD_TEST_INHERITED", "yes")
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name   string
		script string
		set    func(c *execclient.Cmd)
		out    string
		code   int
	}{
		{"output", "echo out", nil, "out\n", 0},
		{"exit code", "echo out; exit 3", nil, "out\n", 3},
		{"death by a signal", "kill -TERM $$", nil, "", 143},
		{"stderr is not stdout", "echo err >&2", nil, "", 0},
		{"no stdin is empty", "cat; echo end", nil, "end\n", 0},
		{"stdin", "cat; echo end", func(c *execclient.Cmd) { c.Stdin = strings.NewReader("in ") }, "in end\n", 0},
		{"stdin that nobody reads", "exit 2", func(c *execclient.Cmd) { c.Stdin = bytes.NewReader(make([]byte, 5<<20)) }, "", 2},
		{"the server's environment", "echo $CMD_TEST_INHERITED$X", nil, "yes\n", 0},
		{"an environment of its own", "echo $CMD_TEST_INHERITED$X", func(c *execclient.Cmd) { c.Env = []string{"X=1", "X=2", "PATH=/bin"} }, "2\n", 0},
		{"an empty environment", "echo [$CMD_TEST_INHERITED]", func(c *execclient.Cmd) { c.Env = []string{} }, "[]\n", 0},
		{
			"an environment policy", "echo $CMD_TEST_INHERITED$X$Y",
			func(c *execclient.Cmd) {
				c.Env = []string{"X=1"}
				c.EnvPolicy = &execproto.EnvPolicy{Exclude: []string{"CMD_*"}, Set: map[string]string{"Y": "2"}}
			}, "12\n", 0,
		},
		{"the server's directory", "pwd", nil, here + "\n", 0},
		{"a directory", "pwd", func(c *execclient.Cmd) { c.Dir = dir }, dir + "\n", 0},
		{"a directory as a URI", "pwd", func(c *execclient.Cmd) { c.Dir = "file://" + dir }, dir + "\n", 0},
		{"a name of its own", "echo $0", func(c *execclient.Cmd) { c.Path, c.Args = "/bin/sh", []string{"me", "-c", "echo $0"} }, "me\n", 0},
		{"another name of its own", "echo $0", func(c *execclient.Cmd) { c.Arg0 = "it" }, "it\n", 0},
		{"a program from the PATH", "", func(c *execclient.Cmd) { c.Path, c.Args = "echo", []string{"echo", "hi"} }, "hi\n", 0},
		{"a terminal", "test -t 0 && test -t 1 && stty size", func(c *execclient.Cmd) {
			c.TTY, c.Size = true, &execproto.TerminalSize{Rows: 7, Cols: 9}
		}, "7 9\r\n", 0},
		{"a terminal's input ends", "stty -echo; echo; cat", func(c *execclient.Cmd) {
			c.TTY, c.Stdin = true, &delayed{after: make(chan struct{}), r: strings.NewReader("hi\n")}
		}, "\r\nhi\r\n", 0},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := sh(client, tt.script)
			if tt.set != nil {
				tt.set(c)
			}
			var out bytes.Buffer
			c.Stdout = &out
			if d, ok := c.Stdin.(*delayed); ok {
				c.Stdout = d.opener(&out)
			}
			err := c.Run()
			code := 0
			var exit *execclient.ExitError
			if errors.As(err, &exit) {
				code, err = exit.ExitCode(), nil
			}
			if err != nil || code != tt.code || out.String() != tt.out {
				t.Errorf("%q, %d, %v; want %q, %d", out.String(), code, err, tt.out, tt.code)
			}
			if c.ExitState == nil || c.ExitState.Code != tt.code {
				t.Errorf("the state is %+v", c.ExitState)
			}
		})
	}
}

// delayed is an input that begins after the first output: until then the terminal echoes.
type delayed struct {
	after chan struct{}
	once  sync.Once
	r     io.Reader
}

func (d *delayed) Read(p []byte) (int, error) {
	<-d.after
	return d.r.Read(p)
}

// opener returns a writer that begins the input.
func (d *delayed) opener(w io.Writer) io.Writer {
	return writerFunc(func(p []byte) (int, error) {
		d.once.Do(func() { close(d.after) })
		return w.Write(p)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestCmdMisuse(t *testing.T) {
	client, _ := connect(t)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct {
		name string
		run  func() error
		want string
	}{
		{"no program", func() error { return client.Command("").Run() }, "no command"},
		{"an unknown program", func() error { return client.Command("/no/such/program").Run() }, "/no/such/program"},
		{"an unknown directory", func() error {
			c := sh(client, "true")
			c.Dir = "/no/such/directory"
			return c.Run()
		}, "/no/such/directory"},
		{"no NAME=VALUE", func() error {
			c := sh(client, "true")
			c.Env = []string{"NAME"}
			return c.Run()
		}, `"NAME" is not NAME=VALUE`},
		{"NUL", func() error {
			c := sh(client, "true")
			c.Env = []string{"NAME=a\x00b"}
			return c.Run()
		}, "contains NUL"},
		{"a context that has ended", func() error { return shContext(ended, client, "true").Run() }, "context canceled"},
		{"Wait without Start", func() error { return sh(client, "true").Wait() }, "not started"},
		{"Start twice", func() error {
			c := sh(client, "true")
			return errors.Join(c.Run(), c.Start())
		}, "already started"},
		{"Wait twice", func() error {
			c := sh(client, "true")
			return errors.Join(c.Run(), c.Wait())
		}, "Wait was already called"},
		{"Output with Stdout", func() error {
			c := sh(client, "true")
			c.Stdout = io.Discard
			_, err := c.Output()
			return err
		}, "Stdout already set"},
		{"CombinedOutput with Stderr", func() error {
			c := sh(client, "true")
			c.Stderr = io.Discard
			_, err := c.CombinedOutput()
			return err
		}, "Stderr already set"},
		{"StdinPipe with Stdin", func() error {
			c := sh(client, "true")
			c.Stdin = strings.NewReader("")
			_, err := c.StdinPipe()
			return err
		}, "Stdin already set"},
		{"StdoutPipe after Start", func() error {
			c := sh(client, "true")
			err := c.Start()
			_, pipeErr := c.StdoutPipe()
			return errors.Join(err, pipeErr, c.Wait())
		}, "after process started"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.run(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
		})
	}
	if err := shContext(ended, client, "true").Run(); !errors.Is(err, context.Canceled) {
		t.Errorf("got error %v, want %v", err, context.Canceled)
	}
}

func TestCmdOutput(t *testing.T) {
	client, _ := connect(t)
	out, err := sh(client, "echo out; echo err >&2; exit 4").Output()
	var exit *execclient.ExitError
	if !errors.As(err, &exit) || string(out) != "out\n" || string(exit.Stderr) != "err\n" || exit.Code != 4 || err.Error() != "exit status 4" {
		t.Errorf(`got out %q, exit %+v, error %v; want errors.As(err, &exit), out %q, exit.Stderr %q, exit.Code 4, error "exit status 4"`, out, exit, err, "out\n", "err\n")
	}
	// The beginning and the end of a long standard error are retained.
	_, err = sh(client, "printf begin >&2; head -c 200000 /dev/zero >&2; printf end >&2; exit 1").Output()
	if !errors.As(err, &exit) {
		t.Fatal(err)
	}
	const note = "\n... omitting 134472 bytes ...\n"
	if s := string(exit.Stderr); len(s) != 64<<10+len(note) || !strings.HasPrefix(s, "begin") || !strings.HasSuffix(s, "end") || !strings.Contains(s, note) {
		t.Errorf("%d bytes: %q ... %q", len(s), s[:10], s[len(s)-10:])
	}
	both, err := sh(client, "echo 1; echo 2 >&2").CombinedOutput()
	if lines := strings.Fields(string(both)); err != nil || !slices.Equal(slices.Sorted(slices.Values(lines)), []string{"1", "2"}) {
		t.Errorf(`got both %q, error %v; want no error, []string{"1", "2"}`, both, err)
	}
}

// exclusive is a writer that detects concurrent writes.
type exclusive struct {
	busy sync.Mutex
	n    int
}

func (w *exclusive) Write(p []byte) (int, error) {
	if !w.busy.TryLock() {
		return 0, errors.New("two writes at a time")
	}
	defer w.busy.Unlock()
	w.n += len(p)
	return len(p), nil
}

func TestOneWriterForBothIsUsedByOneGoroutine(t *testing.T) {
	client, _ := connect(t)
	c := sh(client, "(head -c 3000000 /dev/zero >&2) & head -c 3000000 /dev/zero; wait")
	w := &exclusive{}
	c.Stdout, c.Stderr = w, w
	if err := c.Run(); err != nil || w.n != 6_000_000 {
		t.Errorf("%d bytes, %v", w.n, err)
	}
	// Writers that cannot be compared count as different.
	c = sh(client, "echo a; echo b >&2")
	f := writerFunc(func(p []byte) (int, error) { return len(p), nil })
	c.Stdout, c.Stderr = f, f
	if err := c.Run(); err != nil {
		t.Error(err)
	}
}

func TestCmdPipes(t *testing.T) {
	client, _ := connect(t)
	c := sh(client, "read line; echo got $line; echo err >&2; cat")
	in, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	errs, err := c.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	// A write before Start waits for it.
	var writing sync.WaitGroup
	writing.Go(func() {
		_, err := io.WriteString(in, "a\nb")
		if err := errors.Join(err, in.Close()); err != nil {
			t.Error(err)
		}
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	// Each pipe can be read to its end before the other one.
	fromErr, err1 := io.ReadAll(errs)
	fromOut, err2 := io.ReadAll(out)
	if err := errors.Join(err1, err2); err != nil || string(fromOut) != "got a\nb" || string(fromErr) != "err\n" {
		t.Errorf("got fromOut %q, fromErr %q, error %v; want no error, fromOut %q, fromErr %q", fromOut, fromErr, err, "got a\nb", "err\n")
	}
	writing.Wait()
	if err := in.Close(); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a second Close: %v", err)
	}
	if err := c.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := out.Read(make([]byte, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a read after Wait: %v", err)
	}
	if _, err := in.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a write after Wait: %v", err)
	}
}

func TestPipesOfWhatDidNotStartAreClosed(t *testing.T) {
	client, _ := connect(t)
	c := client.Command("/no/such/program")
	in, err1 := c.StdinPipe()
	out, err2 := c.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err == nil {
		t.Fatal("it started")
	}
	if _, err := in.Write([]byte("x")); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got error %v, want %v", err, os.ErrClosed)
	}
	if _, err := io.ReadAll(out); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got error %v, want %v", err, os.ErrClosed)
	}
}

func TestAWriterThatFailsIsTheErrorOfWait(t *testing.T) {
	client, _ := connect(t)
	broken := errors.New("broken")
	c := sh(client, "head -c 5000000 /dev/zero; echo fine >&2")
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, broken })
	var errs bytes.Buffer
	c.Stderr = &errs
	if err := c.Run(); !errors.Is(err, broken) || errs.String() != "fine\n" || c.ExitState.Code != 0 {
		t.Errorf("got error %v, errs %q, c.ExitState %+v; want error %v, errs %q, c.ExitState.Code 0", err, errs.String(), c.ExitState, broken, "fine\n")
	}
	c = sh(client, "echo x")
	c.Stdout = writerFunc(func([]byte) (int, error) { return 0, nil })
	if err := c.Run(); !errors.Is(err, io.ErrShortWrite) {
		t.Errorf("got error %v, want %v", err, io.ErrShortWrite)
	}
	c = sh(client, "cat")
	c.Stdin = io.MultiReader(strings.NewReader("x"), failing{})
	if err := c.Run(); err == nil || !strings.Contains(err.Error(), "no more") {
		t.Errorf(`got error %v, want an error with "no more"`, err)
	}
}

// TestAWriterThatBlocksHoldsBackItsCommandAlone: other commands of the client continue.
func TestAWriterThatBlocksHoldsBackItsCommandAlone(t *testing.T) {
	client, _ := connect(t)
	c := sh(client, "head -c 8000000 /dev/zero")
	release := make(chan struct{})
	n := 0
	c.Stdout = writerFunc(func(p []byte) (int, error) {
		<-release
		n += len(p)
		return len(p), nil
	})
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		if out, err := sh(client, "head -c 2000000 /dev/zero").Output(); err != nil || len(out) != 2_000_000 {
			t.Fatalf("%d bytes, %v", len(out), err)
		}
	}
	close(release)
	if err := c.Wait(); err != nil || n != 8_000_000 {
		t.Errorf("%d bytes, %v", n, err)
	}
}

// TestCmdSaysWhyItLostItsServer: the error is the connection's error, and no goroutine is
// left.
func TestCmdSaysWhyItLostItsServer(t *testing.T) {
	client, srv := connectWith(t, execclient.Options{RecoveryTimeout: -1})
	c := sh(client, "echo ready; sleep 1000")
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(out, make([]byte, 6)); err != nil {
		t.Fatal(err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	err = c.Wait()
	var exit *execclient.ExitError
	if !errors.Is(err, execclient.ErrClosed) && !errors.As(err, &exit) {
		t.Errorf("got error %v, want errors.As(err, &exit)", err)
	}
}

func TestADenialIsAnError(t *testing.T) {
	for _, tt := range []struct {
		state execclient.ExitState
		want  bool
	}{{execclient.ExitState{Code: 1, SandboxDenied: true}, true}, {execclient.ExitState{Code: 1}, false}} {
		err := fmt.Errorf("run: %w", &execclient.ExitError{ExitState: tt.state})
		if errors.Is(err, execclient.ErrSandboxDenied) != tt.want {
			t.Errorf("%+v: got %v, want %v", tt.state, !tt.want, tt.want)
		}
	}
}

func TestSandboxObjectsAreValid(t *testing.T) {
	for _, raw := range []json.RawMessage{execclient.ReadOnlySandbox(), execclient.WorkspaceSandbox("/srv/a b", "file:///tmp")} {
		if !json.Valid(raw) {
			t.Errorf("got %s, want json.Valid(raw)", raw)
		}
	}
}
