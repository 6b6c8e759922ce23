package initproc

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// recorder makes programs with steps that fail, and with steps that write a byte to a pipe when
// they run.
type recorder struct {
	*Program
	t *testing.T
	r *os.File
	w int
}

func newRecorder(t *testing.T) *recorder {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		t.Fatal(err)
	}
	r := &recorder{New(), t, os.NewFile(uintptr(fds[0]), "pipe"), fds[1]}
	t.Cleanup(func() { _ = r.r.Close() })
	return r
}

func (r *recorder) note(what string) {
	b := []byte(what)
	r.Do("note", what, unix.SYS_WRITE, Val(r.w), Slice(r.Program, b), Val(len(b)))
}

func (r *recorder) fails(what string) {
	r.Do(what, "", unix.SYS_FCHDIR, Arg{Value: ^uintptr(0)})
}

// missing appends a step that looks up a missing file.
func (r *recorder) missing(what string) {
	r.Do(what, "", unix.SYS_OPENAT, CwdFD, r.Text("/gone/gone"), Val(unix.O_PATH), Val(0))
}

// result runs the program and returns the recorded steps, and the error.
func (r *recorder) result() (noted, failed string, errno syscall.Errno) {
	r.t.Helper()
	step, errno := r.run()
	_ = unix.Close(r.w)
	text, err := io.ReadAll(r.r)
	if err != nil {
		r.t.Fatal(err)
	}
	if step >= 0 {
		failed = r.Steps[step].What
	}
	return string(text), failed, errno
}

func TestJumpsOfPrograms(t *testing.T) {
	for _, tt := range []struct {
		name          string
		make          func(r *recorder)
		noted, failed string
	}{
		{"straight on", func(r *recorder) { r.note("a"); r.note("b") }, "ab", ""},
		{"a failure ends it", func(r *recorder) { r.note("a"); r.fails("x"); r.note("b") }, "a", "x"},
		{"nothing", func(*recorder) {}, "", ""},
		{"try that succeeds", func(r *recorder) { r.Try(func() { r.note("a"); r.note("b") }); r.note("c") }, "abc", ""},
		{"try that fails at first", func(r *recorder) { r.Try(func() { r.fails("x"); r.note("a") }); r.note("b") }, "b", ""},
		{"try that fails later", func(r *recorder) { r.Try(func() { r.note("a"); r.fails("x"); r.note("b") }); r.note("c") }, "ac", ""},
		{"try at the end", func(r *recorder) { r.note("a"); r.Try(func() { r.fails("x") }) }, "a", ""},
		{"try of nothing", func(r *recorder) { r.Try(func() {}); r.note("a") }, "a", ""},
		{"a failure after try", func(r *recorder) { r.Try(func() { r.fails("x") }); r.fails("y") }, "", "y"},
		{"either, the first", func(r *recorder) { r.Either(func() { r.note("a") }, func() { r.note("b") }); r.note("c") }, "ac", ""},
		{"either, the second", func(r *recorder) {
			r.Either(func() { r.note("a"); r.fails("x"); r.note("-") }, func() { r.note("b") })
			r.note("c")
		}, "abc", ""},
		{"either, none", func(r *recorder) {
			r.Either(func() { r.fails("x") }, func() { r.note("b"); r.fails("y") })
			r.note("c")
		}, "b", "y"},
		{"either at the end", func(r *recorder) { r.Either(func() { r.note("a") }, func() { r.note("b") }) }, "a", ""},
		{"ifThere, there", func(r *recorder) { r.IfThere(func() { r.note("a"); r.note("b") }); r.note("c") }, "abc", ""},
		{"ifThere, missing", func(r *recorder) { r.IfThere(func() { r.missing("x"); r.note("a") }); r.note("b") }, "b", ""},
		{"ifThere, another error", func(r *recorder) { r.IfThere(func() { r.fails("x"); r.note("a") }); r.note("b") }, "", "x"},
		{"ifThere, and then a failure", func(r *recorder) { r.IfThere(func() { r.note("a"); r.fails("x") }); r.note("b") }, "a", "x"},
		{"ifThere in either", func(r *recorder) {
			r.Either(func() { r.fails("x") }, func() { r.IfThere(func() { r.missing("y"); r.note("a") }); r.note("b") })
			r.note("c")
		}, "bc", ""},
	} {
		r := newRecorder(t)
		tt.make(r)
		noted, failed, errno := r.result()
		if noted != tt.noted || failed != tt.failed || failed != "" && errno != unix.EBADF {
			t.Errorf("%s: %q, failed %q (%v), want %q, %q", tt.name, noted, failed, errno, tt.noted, tt.failed)
		}
	}
}

// If a path was missing when the plan was made, it must be missing in the view.
func TestWhatMustBeAbsent(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.WriteFile(dir+"/file", nil, 0o644), os.Symlink("file", dir+"/link"), os.Symlink("gone", dir+"/nowhere")); err != nil {
		t.Fatal(err)
	}
	for name, there := range map[string]bool{"": true, "/file": true, "/link": true, "/gone": false, "/file/gone": false, "/gone/gone": false, "/nowhere": false} {
		r := newRecorder(t)
		r.Absent(dir + name)
		r.note("a")
		noted, _, errno := r.result()
		if there != (errno == unix.ESTALE) || there != (noted == "") {
			t.Errorf("%q: %v, noted %q", name, errno, noted)
		}
	}
}

func TestRegistersOfPrograms(t *testing.T) {
	p := New()
	dir := t.TempDir()
	file := filepath.Join(dir, "f")
	fd := p.Get("make", file, unix.SYS_OPENAT, CwdFD, p.Text(file), Val(unix.O_CREAT|unix.O_RDWR|unix.O_CLOEXEC), Val(0o600))
	text := []byte("some text")
	p.Do("write", file, unix.SYS_WRITE, fd.Arg(), Slice(p, text), Val(len(text))).Full = true
	other := p.Get("make", "", unix.SYS_DUP, fd.Arg())
	p.Close(fd)
	p.Do("write", file, unix.SYS_WRITE, other.Arg(), p.Text("!"), Val(1)).Full = true
	p.Close(other)
	// A read at the end of a file returns no data. That is a failure if the step requires all data.
	at := p.Get("open", file, unix.SYS_OPENAT, CwdFD, p.Text("/dev/null"), Val(unix.O_RDONLY|unix.O_CLOEXEC), Val(0))
	p.Do("too short", "", unix.SYS_READ, at.Arg(), Slice(p, make([]byte, 1)), Val(1)).Full = true
	step, errno := p.run()
	if step < 0 || p.Steps[step].What != "too short" || errno != unix.EPIPE {
		t.Errorf(`got step %d, errno %v; want step at least 0, p.Steps[step].What "too short", errno %v`, step, errno, unix.EPIPE)
	}
	if got, err := os.ReadFile(file); err != nil || string(got) != "some text!" {
		t.Errorf(`got %q, error %v; want no error, "some text!"`, got, err)
	}
	_ = unix.Close(int(p.regs[at-1]))
}

func TestFailuresSayWhat(t *testing.T) {
	for want, f := range map[string]*Failure{
		"open /x: No such file or directory (os error 2)":      {What: "open", Path: "/x", Errno: unix.ENOENT},
		"fork: Resource temporarily unavailable (os error 11)": {What: "fork", Errno: unix.EAGAIN},
	} {
		if f.Error() != want {
			t.Errorf("%q, want %q", f.Error(), want)
		}
	}
}

func cString(p *byte) string {
	if p == nil {
		return "(nil)"
	}
	return unix.BytePtrToString(p)
}

func cStrings(list []*byte) []string {
	var out []string
	for _, p := range list {
		if p == nil {
			break
		}
		out = append(out, cString(p))
	}
	return out
}

func TestPrepareExec(t *testing.T) {
	for _, tt := range []struct {
		name       string
		argv, env  []string
		arg0       string
		candidates []string
	}{
		{"a path", []string{"/bin/ls", "-l"}, []string{"PATH=/x"}, "ls", []string{"/bin/ls"}},
		{"a relative path", []string{"./ls"}, nil, "./ls", []string{"./ls"}},
		{"a name", []string{"ls"}, []string{"PATH=/a:/b/"}, "ls", []string{"/a/ls", "/b/ls"}},
		{"an empty part is the directory", []string{"ls"}, []string{"PATH=:/b:"}, "", []string{"ls", "/b/ls", "ls"}},
		{"without a PATH", []string{"ls"}, []string{"XPATH=/a"}, "ls", []string{"/bin/ls", "/usr/bin/ls"}},
		{"the last PATH counts", []string{"ls"}, []string{"PATH=/a", "PATH=/b"}, "ls", []string{"/b/ls"}},
	} {
		e, err := PrepareExec(tt.argv, tt.env, tt.arg0, -1)
		if err != nil {
			t.Fatal(err)
		}
		if got := cStrings(e.candidates); !slices.Equal(got, tt.candidates) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.candidates)
		}
		if got := cStrings(e.argv); !slices.Equal(got, append([]string{tt.arg0}, tt.argv[1:]...)) {
			t.Errorf("%s: argv %q", tt.name, got)
		}
		if got := cStrings(e.envp); !slices.Equal(got, tt.env) {
			t.Errorf("%s: envp %q", tt.name, got)
		}
		// A file in an unknown format is a script for the shell.
		if cString(e.script[0]) != "/bin/sh" || e.script[1] != nil || !slices.Equal(cStrings(e.script[2:]), cStrings(e.argv[1:])) {
			t.Errorf("%s: script %q", tt.name, cStrings(e.script))
		}
	}
	for _, bad := range [][]string{{"a\x00b"}, {"a", "b\x00"}} {
		if _, err := PrepareExec(bad, nil, "a", -1); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
	if _, err := PrepareExec([]string{"a"}, []string{"A=\x00"}, "a", -1); err == nil {
		t.Error("a NUL in the environment is taken")
	}
}

// If no file can be executed, run returns with the error.
func TestExecThatFails(t *testing.T) {
	dir := t.TempDir()
	locked := filepath.Join(dir, "locked")
	if err := os.WriteFile(locked, []byte("text"), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		argv, env []string
		want      syscall.Errno
	}{
		{[]string{"/none/such"}, nil, unix.ENOENT},
		{[]string{locked + "/x"}, nil, unix.ENOENT},
		{[]string{locked}, nil, unix.EACCES},
		{[]string{"locked"}, []string{"PATH=" + dir + ":/none"}, unix.EACCES},
		{[]string{"missing"}, []string{"PATH=" + dir + ":/none"}, unix.ENOENT},
		{[]string{dir}, nil, unix.EACCES},
	} {
		e, err := PrepareExec(tt.argv, tt.env, tt.argv[0], -1)
		if err != nil {
			t.Fatal(err)
		}
		if got := e.Run(); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.argv, got, tt.want)
		}
	}
}
