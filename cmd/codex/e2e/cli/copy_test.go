package cli

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestCopiesFollowNoLinks: a copy stays below its target, whatever files exist there already.
func TestCopiesFollowNoLinks(t *testing.T) {
	t.Parallel()
	bothServers(t, copiesFollowNoLinks)
}

func copiesFollowNoLinks(t *testing.T, url string) {
	t.Helper()
	source := filepath.Join(t.TempDir(), "x")
	harness.Must(t, os.MkdirAll(filepath.Join(source, "sub"), 0o755))
	harness.Must(t, os.WriteFile(filepath.Join(source, "sub", "file"), []byte("new"), 0o644))
	for name, tt := range map[string]struct {
		prepare func(target, elsewhere string) error
		errs    string // empty: the copy must succeed
	}{
		"nothing there":      {func(string, string) error { return nil }, ""},
		"directories":        {func(target, _ string) error { return os.MkdirAll(filepath.Join(target, "x", "sub"), 0o755) }, ""},
		"a link for the top": {func(target, elsewhere string) error { return os.Symlink(elsewhere, filepath.Join(target, "x")) }, "a symbolic link"},
		"a link below": {func(target, elsewhere string) error {
			harness.Must(t, os.Mkdir(filepath.Join(target, "x"), 0o755))
			return os.Symlink(elsewhere, filepath.Join(target, "x", "sub"))
		}, "a symbolic link"},
		"a link that stays inside": {func(target, _ string) error {
			harness.Must(t, os.MkdirAll(filepath.Join(target, "x", "other"), 0o755))
			return os.Symlink("other", filepath.Join(target, "x", "sub"))
		}, "a symbolic link"},
		"a link to nothing": {func(target, elsewhere string) error {
			harness.Must(t, os.Mkdir(filepath.Join(target, "x"), 0o755))
			return os.Symlink(filepath.Join(elsewhere, "made"), filepath.Join(target, "x", "sub"))
		}, "a symbolic link"},
		"a link for the file": {func(target, elsewhere string) error {
			harness.Must(t, os.MkdirAll(filepath.Join(target, "x", "sub"), 0o755))
			return os.Symlink(filepath.Join(elsewhere, "made"), filepath.Join(target, "x", "sub", "file"))
		}, "a symbolic link"},
		"a FIFO for the file": {func(target, _ string) error {
			harness.Must(t, os.MkdirAll(filepath.Join(target, "x", "sub"), 0o755))
			return syscall.Mkfifo(filepath.Join(target, "x", "sub", "file"), 0o644)
		}, "not replaced"},
		"a FIFO for the directory": {func(target, _ string) error {
			harness.Must(t, os.MkdirAll(filepath.Join(target, "x"), 0o755))
			return syscall.Mkfifo(filepath.Join(target, "x", "sub"), 0o644)
		}, "not replaced"},
	} {
		target, elsewhere := t.TempDir(), t.TempDir()
		harness.Must(t, tt.prepare(target, elsewhere))
		_, errs, code := harness.Alone(t, nil, "remote", "cp", "-r", "--url", url, ":"+source, target)
		if (code == 0) != (tt.errs == "") || !strings.Contains(errs, tt.errs) {
			t.Errorf("%s: exit code %d, %q", name, code, errs)
		}
		if tt.errs == "" { // otherwise the target may be a FIFO
			if text, err := os.ReadFile(filepath.Join(target, "x", "sub", "file")); string(text) != "new" {
				t.Errorf("%s: the copy has %q, %v", name, text, err)
			}
		}
		for _, dir := range []string{elsewhere, filepath.Join(target, "x", "other")} {
			if made, _ := os.ReadDir(dir); len(made) > 0 {
				t.Errorf("%s: %v in %s", name, made, dir)
			}
		}
	}
	// The server cannot choose the local name for its home directory.
	target := t.TempDir()
	for _, from := range []string{":~", ":.", ":", ":~/.", ":" + source + "/.."} {
		if _, errs, code := harness.Alone(t, nil, "remote", "cp", "-r", "--url", url, from, target); code == 0 || !strings.Contains(errs, "give the target's name too") {
			t.Errorf("%s: exit code %d, %q", from, code, errs)
		}
	}
	if made, _ := os.ReadDir(target); len(made) > 0 {
		t.Errorf("%v was copied", made)
	}
}
