package broker_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// foreignShared is the variable with the path of a file in /dev/shm that a process outside has made.
const foreignShared = "CODEX_BROKER_SHARED"

// sharedInside makes and removes files in /dev/shm as sem_open and shm_open do. The errors of what must work begin with "inside".
func sharedInside(string) map[string]syscall.Errno {
	results := make(map[string]syscall.Errno)
	foreign := os.Getenv(foreignShared)
	name := foreign + ".own"
	for what, do := range map[string]func(at string) error{
		"open": open(unix.O_RDWR), "open and create": open(unix.O_RDWR | unix.O_CREAT), "truncate": open(unix.O_RDONLY | unix.O_TRUNC),
		"unlink": unix.Unlink, "chmod": func(at string) error { return unix.Chmod(at, 0o666) },
		"link":   func(at string) error { return unix.Link(at, name) },
		"rename": func(at string) error { return unix.Rename(at, name) },
	} {
		results[what+" of another's"] = errno(do(foreign))
	}
	for _, step := range []struct {
		name string
		do   func() error
	}{
		{"create", func() error { return open(unix.O_RDWR | unix.O_CREAT | unix.O_EXCL)(name) }},
		{"open", func() error { return open(unix.O_RDWR)(name) }},
		{"chmod", func() error { return unix.Chmod(name, 0o600) }},
		{"truncate", func() error { return unix.Truncate(name, 10) }},
		{"link", func() error { return unix.Link(name, name+"2") }},
		{"unlink", func() error { return unix.Unlink(name) }},
		{"open the link", func() error { return open(unix.O_RDWR)(name + "2") }},
	} {
		results["inside: "+step.name] = errno(step.do())
	}
	results["rename onto another's"] = errno(unix.Rename(name+"2", foreign))
	results["exchange with another's"] = errno(unix.Renameat2(unix.AT_FDCWD, name+"2", unix.AT_FDCWD, foreign, unix.RENAME_EXCHANGE))
	results["inside: unlink the link"] = errno(unix.Unlink(name + "2"))
	results["mkdir"] = errno(unix.Mkdir(name, 0o700))
	results["symlink"] = errno(unix.Symlink("x", name))
	return results
}

func TestOwnFilesInSharedMemoryOnly(t *testing.T) {
	f, err := os.CreateTemp("/dev/shm", "broker")
	must(t, err)
	defer func() { _ = os.Remove(f.Name()) }()
	_, err = f.WriteString("before")
	must(t, err)
	must(t, f.Close())
	t.Setenv(foreignShared, f.Name())
	for name, got := range act(t, workspace(t), 6, "shm") {
		inside := strings.HasPrefix(name, "inside")
		if inside && got != 0 || !inside && got != unix.EACCES && got != unix.EPERM && got != unix.EXDEV {
			t.Errorf("%s: got %v, want success inside, and EACCES, EPERM or EXDEV otherwise", name, got)
		}
	}
	if text, err := os.ReadFile(f.Name()); err != nil || string(text) != "before" {
		t.Errorf("the file of another process: got %q, %v, want %q", text, err, "before")
	}
	if left, _ := filepath.Glob(f.Name() + ".*"); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}
