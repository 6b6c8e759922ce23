//go:build unix

package signin

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/host/safeopen"
)

// TestNoFileToKeep: auth.json is a link to a FIFO, or a FIFO itself. No operation waits for it.
// Storing credentials replaces it by a file and does not change the target of a link.
func TestNoFileToKeep(t *testing.T) {
	for name, link := range map[string]bool{"a FIFO": false, "a link to one": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path, fifo := filepath.Join(dir, FileName), filepath.Join(t.TempDir(), "fifo")
			if !link {
				fifo = path
			} else if err := os.Symlink(fifo, path); err != nil {
				t.Fatal(err)
			}
			if err := syscall.Mkfifo(fifo, 0o600); err != nil {
				t.Fatal(err)
			}
			s := &fileStore{path}
			if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), safeopen.ErrNotRegular.Error()) {
				t.Errorf("load: %v", err)
			}
			if err := s.Save(NewAPIKey("k")); err != nil {
				t.Fatal(err)
			}
			if a, err := s.Load(); err != nil || a.APIKey != "k" {
				t.Errorf("load again: %v", err)
			}
			if info, err := os.Lstat(fifo); err != nil || (info.Mode()&os.ModeNamedPipe != 0) != link {
				t.Errorf("what was there: %v, %v", info, err)
			}
		})
	}
}

// TestStoredCredentialsArePrivate: another user could read an auth.json that was copied with the
// mode 0644. The mode of its directory does not matter.
func TestStoredCredentialsArePrivate(t *testing.T) {
	for mode, want := range map[os.FileMode]os.FileMode{0o600: 0o600, 0o400: 0o400, 0o644: 0o600, 0o660: 0o600, 0o602: 0o600} {
		dir := t.TempDir()
		path := filepath.Join(dir, FileName)
		if err := (&fileStore{path}).Save(NewAPIKey("k")); err != nil {
			t.Fatal(err)
		}
		for of, m := range map[string]os.FileMode{dir: 0o755, path: mode} {
			if err := os.Chmod(of, m); err != nil {
				t.Fatal(err)
			}
		}
		var said []string
		s, err := OpenStore("file", dir, func(text string) { said = append(said, text) })
		if err != nil {
			t.Fatal(err)
		}
		if a, err := s.Load(); err != nil || a.APIKey != "k" {
			t.Errorf("mode %o: got %v, error %v; want the key", mode, a, err)
		}
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want || (len(said) == 1) != (mode != want) {
			t.Errorf("mode %o: got %v, error %v, warnings %q; want the mode %o, and a warning if that is new", mode, info, err, said, want)
		}
	}
}
