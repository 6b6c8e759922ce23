//go:build unix

package safeopen

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestOpen: a FIFO does not block the program. With os.Open the test would never end.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := os.WriteFile(at("file"), []byte("text"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(at("fifo"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, target := range map[string]string{"link": "file", "to a FIFO": "fifo", "to a device": "/dev/zero", "to nothing": "none", "loop": "loop"} {
		if err := os.Symlink(target, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	socket, err := net.Listen("unix", filepath.Join(shortDir(t), "s"))
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	for path, want := range map[string]error{
		at("file"): nil, at("link"): nil, at("fifo"): ErrNotRegular, at("to a FIFO"): ErrNotRegular, at("to a device"): ErrNotRegular,
		dir: syscall.EISDIR, at("none"): fs.ErrNotExist, at("to nothing"): fs.ErrNotExist, at("loop"): syscall.ELOOP,
		socket.Addr().String(): ErrNotRegular, "/dev/tty": ErrNotRegular,
	} {
		for _, flag := range []int{os.O_RDONLY, os.O_WRONLY | os.O_APPEND, os.O_RDWR} {
			f, err := Open(path, flag, 0)
			if !errors.Is(err, want) {
				t.Errorf("%s: %v, not %v", path, err, want)
			}
			if err == nil {
				_ = f.Close()
			} else if !strings.Contains(err.Error(), path) {
				t.Errorf("%s is not in %q", path, err)
			}
		}
	}
	f, err := Open(at("new"), os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Close()
}

// shortDir is a directory with a path that fits into the address of a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/tmp", "regular")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

func TestReadFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path, 5); string(text) != "12345" || err != nil {
		t.Errorf(`got text %q, error %v; want text "12345", no error`, text, err)
	}
	if _, err := ReadFile(path, 4); err == nil {
		t.Error("a byte too many is read")
	}
}
