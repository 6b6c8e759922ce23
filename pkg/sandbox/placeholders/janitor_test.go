package placeholders

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"unsafe"

	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// startJanitor runs a janitor in this process. It returns its socket and a function that ends it,
// which returns when the janitor has finished its work.
func startJanitor(t *testing.T) (own int, end func()) {
	t.Helper()
	ours, theirs, err := JanitorPair()
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		err := RunJanitor(theirs)
		_ = unix.Close(theirs)
		done <- err
	}()
	if err := AwaitJanitor(ours); err != nil {
		t.Fatal(err)
	}
	return ours, func() {
		t.Helper()
		_ = unix.Close(ours)
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func connected(t *testing.T, own int) JanitorOf {
	t.Helper()
	fd, err := ConnectJanitor(own)
	if err != nil {
		t.Fatal(err)
	}
	return JanitorOf{fd}
}

// run announces that the command is about to run, and waits for the answer.
func (j JanitorOf) run(init int) error {
	if err := j.Run(init); err != nil {
		return err
	}
	return j.Await()
}

// killed ends the connection, as the kernel does for a killed launcher.
func (j JanitorOf) killed() { _ = unix.Close(j.FD) }

// hold makes a placeholder that the janitor knows.
func (j JanitorOf) hold(t *testing.T, i int, name string) *Placeholder {
	t.Helper()
	s, err := openPlaceholder(name, plan.FileID{})
	if err != nil {
		t.Fatal(err)
	}
	s.dir = true
	if err := j.Placeholder(i, s); err != nil {
		t.Fatal(err)
	}
	s.share = func(fd int) error { return j.Hold(i, fd) }
	if s, err = s.take(); err != nil || s == nil {
		t.Fatalf("got s %v, error %v; want no error, s that is not nil", s, err)
	}
	return s
}

// watched opens a name that must not be created, which the janitor knows.
func (j JanitorOf) watched(t *testing.T, name string) *Removal {
	t.Helper()
	r, err := openRemoval(plan.UndoName{Path: name, Dev: idOfPath(t, filepath.Dir(name)).Dev, Ino: idOfPath(t, filepath.Dir(name)).Ino})
	if err != nil {
		t.Fatal(err)
	}
	if err := j.Name(r); err != nil {
		t.Fatal(err)
	}
	return r
}

func idOfPath(t *testing.T, name string) plan.FileID {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		t.Fatal(err)
	}
	return plan.FileID{Dev: uint64(st.Dev), Ino: st.Ino}
}

func there(name string) bool {
	_, err := os.Lstat(name)
	return err == nil
}

// TestJanitorAfterKill: the launcher is killed before or after the command runs, or
// announces that nothing is left to be removed.
func TestJanitorAfterKill(t *testing.T) {
	for _, tt := range []struct {
		name         string
		run, forget  bool
		stays, waits bool // the files afterwards; the sandbox continues meanwhile
	}{
		{name: "while it starts"},
		{name: "while the command runs", run: true, waits: true},
		{name: "after it has done all", run: true, forget: true, stays: true},
		{name: "after a first attempt", forget: true, stays: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			own, end := startJanitor(t)
			j := connected(t, own)
			s := j.hold(t, 3, dir+"/.codex")
			defer s.close()
			r := j.watched(t, dir+"/.git")
			defer unix.Close(r.dir)
			init := exec.Command("/bin/sh", "-c", "read x")
			stdin, err := init.StdinPipe()
			if err != nil {
				t.Fatal(err)
			}
			if err := init.Start(); err != nil {
				t.Fatal(err)
			}
			if tt.run {
				if err := j.run(init.Process.Pid); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Mkdir(dir+"/.git", 0o755); err != nil {
				t.Fatal(err)
			}
			if tt.forget {
				j.Forget()
			}
			j.killed()
			if tt.waits && (!there(dir+"/.git") || !there(dir+"/.codex")) {
				t.Error("something was removed while the sandbox was running")
			}
			if err := errors.Join(stdin.Close(), ignoreExit(init.Wait())); err != nil {
				t.Fatal(err)
			}
			end()
			for _, name := range []string{"/.git", "/.codex"} {
				if there(dir+name) != tt.stays {
					t.Errorf("%s is there: %v", name, !tt.stays)
				}
			}
		})
	}
}

// ignoreExit drops the error of a program that has ended with an exit code.
func ignoreExit(err error) error {
	var code *exec.ExitError
	if errors.As(err, &code) {
		return nil
	}
	return err
}

// TestJanitorWithTwoSandboxes: two sandboxes share a placeholder. When the launcher of one is
// killed, the placeholder is removed only if that sandbox is the last.
func TestJanitorWithTwoSandboxes(t *testing.T) {
	name := t.TempDir() + "/.codex"
	own, end := startJanitor(t)
	first, second := connected(t, own), connected(t, own)
	a, b := first.hold(t, 0, name), second.hold(t, 0, name)
	first.killed()
	a.close()
	// The second sandbox is protected from its start on, although it did not create the
	// placeholder.
	if err := second.run(os.Getpid()); err != nil {
		t.Fatal(err)
	}
	if !there(name) {
		t.Error("the placeholder is gone while a sandbox has it")
	}
	b.Release()
	second.Forget()
	second.killed()
	end()
	if there(name) {
		t.Error("the placeholder is left")
	}
}

// TestJanitorTakesNothingLate: once the command runs, a process that has got hold of the connection
// cannot make the janitor remove anything else.
func TestJanitorTakesNothingLate(t *testing.T) {
	dir := t.TempDir()
	own, end := startJanitor(t)
	j := connected(t, own)
	if err := j.run(-1); err != nil {
		t.Fatal(err)
	}
	r := j.watched(t, dir+"/data")
	defer unix.Close(r.dir)
	if err := os.WriteFile(dir+"/data", nil, 0o644); err != nil {
		t.Fatal(err)
	}
	j.killed()
	end()
	if !there(dir + "/data") {
		t.Error("a name was taken after the command had begun")
	}
}

// TestMalformedMessages: a janitor that gets a malformed message from its launcher closes the
// connection, and the command does not run. Other connections continue.
func TestMalformedMessages(t *testing.T) {
	own, end := startJanitor(t)
	other := connected(t, own)
	for name, message := range map[string]string{
		"no kind": "x", "a placeholder without its name": "s\x00\x00\x00\x00", "a held placeholder that nobody knows": "h\x01\x00\x00\x00",
		"a path": "n" + string(make([]byte, removalHead-1)) + "a/b", "too long": string(make([]byte, janitorMessage+1)),
	} {
		t.Run(name, func(t *testing.T) {
			j := connected(t, own)
			defer j.killed()
			null, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(null)
			if err := tell(j.FD, []byte(message), null); err != nil {
				t.Fatal(err)
			}
			if err := j.run(-1); err == nil {
				t.Error("the command may run")
			}
		})
	}
	if err := other.run(-1); err != nil {
		t.Error(err)
	}
	other.killed()
	end()
}

// TestJanitorForgets: a slow janitor reads that nothing is left to be removed, although the launcher
// has closed its end by then, with or without having read the answer.
func TestJanitorForgets(t *testing.T) {
	for name, isLate := range map[string]bool{"before it has read anything": true, "before its answer is read": false} {
		t.Run(name, func(t *testing.T) {
			made := t.TempDir() + "/.git"
			ours, theirs, err := JanitorPair()
			if err != nil {
				t.Fatal(err)
			}
			served := make(chan struct{})
			serve := func() {
				serveLauncher(theirs)
				close(served)
			}
			if !isLate {
				go serve()
			}
			j := JanitorOf{ours}
			r := j.watched(t, made)
			defer unix.Close(r.dir)
			if err := j.Run(-1); err != nil {
				t.Fatal(err)
			}
			if !isLate {
				// The answer has arrived, and stays unread.
				if n, err := unix.Poll([]unix.PollFd{{Fd: int32(ours), Events: unix.POLLIN}}, -1); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			}
			j.Forget()
			j.killed()
			if err := os.Mkdir(made, 0o755); err != nil {
				t.Fatal(err)
			}
			if isLate {
				go serve()
			}
			<-served
			if !there(made) {
				t.Error("what was made after that is removed")
			}
		})
	}
}

// TestEmptyMessage: the descriptors of a message without records are closed.
func TestEmptyMessage(t *testing.T) {
	open := func() int {
		entries, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(entries)
	}
	before := open()
	ours, theirs, err := JanitorPair()
	if err != nil {
		t.Fatal(err)
	}
	rights := unix.UnixRights(ours, ours, ours)
	h := unix.Msghdr{Control: &rights[0]} // the library adds a byte to such a message
	h.SetControllen(len(rights))
	if _, _, errno := unix.Syscall(unix.SYS_SENDMSG, uintptr(ours), uintptr(unsafe.Pointer(&h)), 0); errno != 0 {
		t.Fatal(errno)
	}
	_ = unix.Close(ours)
	serveLauncher(theirs)
	if after := open(); after > before {
		t.Errorf("%d descriptors are open, %d were before", after, before)
	}
}

// TestJanitorHasEnded: a launcher whose janitor was killed runs nothing.
func TestJanitorHasEnded(t *testing.T) {
	ours, theirs, err := JanitorPair()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ours)
	_ = unix.Close(theirs)
	if _, err := ConnectJanitor(ours); !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	if err := (JanitorOf{ours}).Run(os.Getpid()); !errors.Is(err, unix.EPIPE) {
		t.Error(err)
	}
	if err := AwaitJanitor(ours); err == nil {
		t.Error("it is ready")
	}
}

func FuzzJanitorMessages(f *testing.F) {
	f.Add([]byte("s\x00\x00\x00\x00"+string(make([]byte, 32))+".git"), []byte("h\x00\x00\x00\x00"))
	f.Add([]byte("n"+string(make([]byte, removalHead-1))+".git"), []byte("r"))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		l := newLeftovers()
		defer l.close()
		for _, m := range [][]byte{first, second} {
			fd, err := unix.Open(os.DevNull, unix.O_RDONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				t.Fatal(err)
			}
			if len(m) == 0 || len(m) > janitorMessage || !l.take(m, fd) {
				closeFD(fd)
				return
			}
		}
		for _, s := range l.placeholders {
			if name := unix.ByteSliceToString(s.name[:]); name == "" || filepath.Base(name) != name {
				t.Errorf("the name %q", name)
			}
		}
		for _, r := range l.names {
			if name := unix.ByteSliceToString(r.name[:]); name == "" || filepath.Base(name) != name {
				t.Errorf("the name %q", name)
			}
		}
	})
}
