//go:build linux

package main_test

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// build builds the program as it is released, and returns its path.
func build(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("with -short nothing is built, and this runs the program")
	}
	name := filepath.Join(t.TempDir(), "codex-fs")
	if err := testutil.Build(name, "."); err != nil {
		t.Fatal(err)
	}
	return name
}

// start starts the program with pipes. The returned function waits for the end of the program and
// returns its stderr.
func start(t *testing.T, name string) (io.WriteCloser, *bufio.Reader, func() (string, *os.ProcessState)) {
	t.Helper()
	in, out, wait, _ := startAs(t, name, nil)
	return in, out, wait
}

func startAs(t *testing.T, name string, attr *syscall.SysProcAttr) (io.WriteCloser, *bufio.Reader, func() (string, *os.ProcessState), int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name)
	cmd.Env, cmd.SysProcAttr = []string{}, attr
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	timer := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	t.Cleanup(func() { timer.Stop() })
	return in, bufio.NewReader(out), func() (string, *os.ProcessState) {
		_ = cmd.Wait()
		return stderr.String(), cmd.ProcessState
	}, cmd.Process.Pid
}

func send(t *testing.T, w io.Writer, line []byte) {
	t.Helper()
	if _, err := w.Write(line); err != nil {
		t.Fatal(err)
	}
}

// response reads one answer as the server does.
func response(t *testing.T, r *bufio.Reader, operation string) string {
	t.Helper()
	line, err := r.ReadBytes('\n')
	if err != nil {
		t.Fatal(err)
	}
	got, rpcErr, err := fshelper.ParseAnswer(line, operation)
	if err != nil || rpcErr != nil {
		t.Fatal(err, rpcErr)
	}
	return string(got)
}

func TestProgram(t *testing.T) {
	name := build(t)
	info, err := os.Stat(name)
	if err != nil || info.Size() > 4<<20 {
		t.Errorf("%d bytes, %v: it is loaded for each request", info.Size(), err)
	}
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	if err := os.WriteFile(file, []byte("abc"), 0o644); err != nil {
		t.Fatal(err)
	}

	t.Run("one request, open input", func(t *testing.T) {
		in, out, wait := start(t, name)
		for _, piece := range fshelper.Request("fs/readFile", dir, []byte(`{"path":"~/f","sandbox":{"a":1}}`), nil) {
			send(t, in, piece)
		}
		if got := response(t, out, "fs/readFile"); got != `{"dataBase64":"YWJj"}` {
			t.Errorf("got %v, want %q", got, `{"dataBase64":"YWJj"}`)
		}
		if stderr, state := wait(); stderr != "" || !state.Success() {
			t.Error(stderr, state)
		}
	})

	t.Run("malformed", func(t *testing.T) {
		in, out, wait := start(t, name)
		send(t, in, []byte("{"))
		_ = in.Close()
		if rest, err := io.ReadAll(out); len(rest) > 0 || err != nil {
			t.Errorf("got rest %q, error %v; want len(rest) at most 0, no error", rest, err)
		}
		stderr, state := wait()
		const want = "fs sandbox helper failed with status exit status: 1: fs sandbox helper failed: key must be a string"
		if got := fshelper.FailureText(state.Sys().(syscall.WaitStatus), []byte(stderr)); !strings.HasPrefix(got, want) {
			t.Errorf("got %v, want a text beginning with %q", got, want)
		}
	})

	t.Run("a handle", func(t *testing.T) {
		in, out, wait := start(t, name)
		send(t, in, []byte(`{"operation":"fs/open","params":{"handleId":"h","path":"`+file+`"}}`+"\n"))
		if got := response(t, out, "fs/open"); got != `{"handleId":"h"}` {
			t.Errorf("got %v, want %q", got, `{"handleId":"h"}`)
		}
		for range 3 {
			send(t, in, fshelper.AppendReadBlock(nil, 1, 9))
			if got := response(t, out, "fs/readBlock"); got != `{"chunk":"YmM=","eof":true}` {
				t.Errorf("got %v, want %q", got, `{"chunk":"YmM=","eof":true}`)
			}
		}
		send(t, in, fshelper.AppendClose(nil))
		if got := response(t, out, "fs/close"); got != `{}` {
			t.Errorf(`got %v, want "{}"`, got)
		}
		if stderr, state := wait(); stderr != "" || !state.Success() {
			t.Error(stderr, state)
		}
	})

	// Scenario: the server has ended. Neither the end of the input nor a missing reader of the
	// answers may leave a temporary file.
	for _, deaf := range []bool{false, true} {
		t.Run(map[bool]string{false: "given up", true: "given up by a server that does not read"}[deaf], func(t *testing.T) {
			dir := t.TempDir()
			cmd := exec.CommandContext(t.Context(), name)
			in, err := cmd.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			out, w, err := os.Pipe()
			if err != nil {
				t.Fatal(err)
			}
			cmd.Stdout = w
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			_ = w.Close()
			r := bufio.NewReader(out)
			send(t, in, []byte(`{"operation":"fs/open","params":{"handleId":"h","path":"`+dir+`/g","mode":"replace","atomic":true}}`+"\n"))
			response(t, r, "fs/open")
			if names, _ := filepath.Glob(dir + "/.*.tmp"); len(names) != 1 {
				t.Errorf("temporary files: %v", names)
			}
			_ = out.Close()
			if deaf {
				send(t, in, fshelper.AppendWriteBlock(nil, 0, []byte("abc")))
			}
			_ = in.Close()
			err = cmd.Wait()
			var exit *exec.ExitError
			if deaf && (!errors.As(err, &exit) || exit.ExitCode() != 1) || !deaf && err != nil {
				t.Error(err)
			}
			if names, _ := filepath.Glob(dir + "/.*"); len(names) > 0 {
				t.Errorf("left behind: %v", names)
			}
		})
	}
}

// TestLinkedPackages forbids packages that would make the start slower.
func TestLinkedPackages(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, out)
	}
	for pkg := range strings.FieldsSeq(string(out)) {
		for _, heavy := range []string{
			"net", "crypto", "math/big", "regexp", "log", "text", "os/exec", "flag", "google",
			"codex.internal/pkg/execserver", "codex.internal/pkg/wire/websocket",
		} {
			if pkg == heavy || strings.HasPrefix(pkg, heavy+"/") {
				t.Errorf("the helper links %s", pkg)
			}
		}
	}
}

// TestNotDumpable: other processes of the user cannot open the helper's streams through /proc,
// because the kernel gives the files there to root.
func TestNotDumpable(t *testing.T) {
	name := build(t)
	const nobody = 65534
	attr := &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if os.Geteuid() == 0 {
		attr.Credential = &syscall.Credential{Uid: nobody, Gid: nobody}
		name = everybodys(t, name)
	}
	in, out, wait, pid := startAs(t, name, attr)
	send(t, in, []byte(`{"operation":"fs/open","params":{"handleId":"h","path":"/etc/passwd"}}`+"\n"))
	response(t, out, "fs/open")
	var st unix.Stat_t
	check(t, unix.Stat(fmt.Sprintf("/proc/%d/fd", pid), &st))
	if st.Uid != 0 {
		t.Errorf("the streams of the helper belong to user %d", st.Uid)
	}
	check(t, in.Close())
	if stderr, state := wait(); stderr != "" || !state.Success() {
		t.Error(stderr, state)
	}
}

// everybodys copies a program to a path where every user can execute it.
func everybodys(t *testing.T, program string) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "codex-fs")
	check(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check(t, os.Chmod(dir, 0o755))
	text, err := os.ReadFile(program)
	check(t, err)
	check(t, testutil.WriteProgram(dir+"/codex-fs", text))
	check(t, os.Chmod(dir+"/codex-fs", 0o755))
	return dir + "/codex-fs"
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
