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
