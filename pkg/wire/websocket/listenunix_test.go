//go:build unix

package websocket

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestListenUnix(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(path); err != nil || info.Mode() != os.ModeSocket|0o600 {
		t.Fatalf("got info.Mode() %v, error %v; want no error, info.Mode() %v", info.Mode(), err, os.ModeSocket|0o600)
	}
	if _, err := ListenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "listens on") {
		t.Errorf("a second server: %v", err)
	}
	if err := l.Close(); err != nil {
		t.Error(err)
	}
	if _, err := os.Lstat(path); err == nil {
		t.Error("the socket is still there")
	}
}

func TestListenUnixReplacesStaleSocketsOnly(t *testing.T) {
	dir := t.TempDir()
	stale := filepath.Join(dir, "stale")
	dead, err := net.ListenUnix("unix", &net.UnixAddr{Name: stale, Net: "unix"})
	if err != nil {
		t.Fatal(err)
	}
	dead.SetUnlinkOnClose(false)
	dead.Close()
	l, err := ListenUnix(t.Context(), stale)
	if err != nil {
		t.Fatal(err)
	}
	// A server only removes its own socket.
	if err := os.Rename(stale, stale+"2"); err != nil {
		t.Fatal(err)
	}
	other, err := ListenUnix(t.Context(), stale)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	l.Close()
	if _, err := os.Lstat(stale); err != nil {
		t.Error(err)
	}
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(stale+"2", link); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, link, dir} {
		if _, err := ListenUnix(t.Context(), path); err == nil || !strings.Contains(err.Error(), "not a socket") {
			t.Errorf(`%s: got error %v, want an error with "not a socket"`, path, err)
		}
		if _, err := os.Lstat(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := ListenUnix(t.Context(), filepath.Join(dir, strings.Repeat("x", 200))); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("a long path: %v", err)
	}
	if names, _ := filepath.Glob(filepath.Join(dir, ".codex*")); len(names) > 0 {
		t.Errorf("left behind: %v", names)
	}
}
