//go:build unix

package safeopen

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestPrivateDir: no other user can exchange a directory for secrets.
func TestPrivateDir(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	make := func(name string, mode fs.FileMode) {
		if err := errors.Join(os.MkdirAll(dir+"/"+name, 0o700), os.Chmod(dir+"/"+name, mode)); err != nil {
			t.Fatal(err)
		}
	}
	make("own", 0o755)
	make("all", 0o777)
	make("sticky", 0o777|fs.ModeSticky)
	make("open", 0o755)
	make("sticky/open/private", 0o700)
	make("own/readable", 0o755)
	for name, target := range map[string]string{"link": "own", "chain": dir + "/link", "toall": "all", "loop": "loop", "own/last": "../own"} {
		if err := os.Symlink(target, dir+"/"+name); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range map[string]string{
		"own/new/new": "", "link/new": "", "chain/again": "", "sticky/new": "", "sticky/open/private": "",
		"all/new": "can be changed by other users", "toall/new": "can be changed by other users", "loop/new": "too many links",
		"own/last": "is a link", "own/readable": "has the mode 0755",
	} {
		root, err := PrivateDir(dir+"/"+name, true)
		if err == nil {
			info, e := root.Stat(".")
			if err = errors.Join(e, root.Close()); err == nil && info.Mode().Perm() != 0o700 {
				t.Errorf("%s: got mode %v, want 0700", name, info.Mode())
			}
		}
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: got error %v, want %q", name, err, want)
		}
	}
	if _, err := PrivateDir(dir+"/own/none", false); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without create: got error %v, want %v", err, fs.ErrNotExist)
	}
	if _, err := os.Lstat(dir + "/all/new"); err == nil {
		t.Errorf("a directory was made where it was refused")
	}
}

// TestOwnersAbove: PrivateDir refuses a directory or a link of another user on the way, and accepts
// one of root.
func TestOwnersAbove(t *testing.T) {
	info, err := os.Stat(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	stat := info.Sys().(*syscall.Stat_t)
	for uid, want := range map[uint32]bool{uint32(os.Geteuid()): true, 0: true, uint32(os.Geteuid()) + 1: false} {
		if stat.Uid = uid; (stays("d", info) == nil) != want {
			t.Errorf("of user %d: got error %v, want success %v", uid, stays("d", info), want)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can make what follows
	}
	dir := t.TempDir()
	for name, make := range map[string]func(path string) error{
		"link": func(path string) error { return os.Symlink(t.TempDir(), path) },
		"own":  func(path string) error { return os.Mkdir(path, 0o755) },
	} {
		if err := errors.Join(make(dir+"/"+name), os.Lchown(dir+"/"+name, 1, 1)); err != nil {
			t.Fatal(err)
		}
		if root, err := PrivateDir(dir+"/"+name+"/new", true); root != nil || err == nil || !strings.Contains(err.Error(), dir+"/"+name+" belongs to another user") {
			t.Errorf("%s of another user: got directory %v, error %v; want that it belongs to another user", name, root, err)
		}
	}
}
