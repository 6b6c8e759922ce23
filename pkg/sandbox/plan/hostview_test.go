package plan

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

func TestReadDir(t *testing.T) {
	dir := t.TempDir()
	want := map[string]permissions.FileType{"d": permissions.Dir, "l": permissions.Symlink, "p": permissions.Other, "...": permissions.Regular}
	// More than one system call returns, and the longest name.
	for i := range 500 {
		want[fmt.Sprintf("%0250d", i)] = permissions.Regular
	}
	want[strings.Repeat("x", unix.NAME_MAX)] = permissions.Regular
	for name, fileType := range want {
		var err error
		switch at := filepath.Join(dir, name); fileType {
		case permissions.Dir:
			err = os.Mkdir(at, 0o755)
		case permissions.Symlink:
			err = os.Symlink("d", at)
		case permissions.Other:
			err = unix.Mkfifo(at, 0o600)
		default:
			err = os.WriteFile(at, nil, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	got := map[string]permissions.FileType{}
	err := HostView{}.ReadDir(dir, func(name string, t permissions.FileType) error {
		got[name] = t
		return nil
	})
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("got %v, error %v; want no error, %v", got, err, want)
	}
	stop := errors.New("stop")
	if err := (HostView{}).ReadDir(dir, func(string, permissions.FileType) error { return stop }); !errors.Is(err, stop) {
		t.Errorf("it goes on: %v", err)
	}
	ignore := func(string, permissions.FileType) error { return nil }
	if err := (HostView{}).ReadDir(filepath.Join(dir, "none"), ignore); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing: %v", err)
	}
	// A directory that has become a link since it was examined is not entered.
	if err := (HostView{}).ReadDir(filepath.Join(dir, "l"), ignore); err == nil || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("through a link: %v", err)
	}
}
