//go:build unix

package safeopen

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestReadPrivate: a secret is read only from files that no other user can read or has chosen.
func TestReadPrivate(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, mode os.FileMode, size int) string {
		path := filepath.Join(dir, name)
		if err := errors.Join(os.WriteFile(path, bytes.Repeat([]byte("x"), size), 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := file("good", 0o400, 8)
	link, fifo := filepath.Join(dir, "link"), filepath.Join(dir, "fifo")
	if err := errors.Join(os.Symlink(good, link), syscall.Mkfifo(fifo, 0o600)); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadPrivate(good, 8); err != nil || string(text) != "xxxxxxxx" {
		t.Errorf(`got text %q, error %v; want no error, text "xxxxxxxx"`, text, err)
	}
	for path, want := range map[string]string{
		file("readable", 0o640, 8): "mode 0640", file("others", 0o604, 8): "chmod 600", file("large", 0o600, 9): "larger than 8 bytes",
		link: "link", fifo: "not a regular file", dir: "directory", filepath.Join(dir, "none"): "no such file",
	} {
		if text, err := ReadPrivate(path, 8); err == nil || text != nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %q, %v; want %s", path, text, err, want)
		}
	}
}

// TestReadPrivateOfOthers: a file of another user is refused. A file of root may be readable by the
// group.
func TestReadPrivateOfOthers(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, nil, 0o640); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	for uid, want := range map[uint32]bool{uint32(os.Geteuid()) + 1: false, uint32(os.Geteuid()): false} {
		stat.Uid = uid
		if err := private(path, info); (err == nil) != want {
			t.Errorf("user %d: %v", uid, err)
		}
	}
	if stat.Uid = 0; os.Geteuid() != 0 {
		if err := private(path, info); err != nil {
			t.Errorf("root: %v", err)
		}
	}
}
