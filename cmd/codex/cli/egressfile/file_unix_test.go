//go:build unix

package egressfile

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"codex.internal/pkg/account/home"
)

func allowed(t *testing.T, text string) []string {
	t.Helper()
	var f policy
	if err := home.DecodeTOML([]byte(text), &f, true); err != nil {
		t.Fatalf("got error %v, text:\n%s\nwant no error", err, text)
	}
	return f.Allow
}

// TestAllowIn: patterns are added to the list allow, wherever it is, and the rest does
// not change.
func TestAllowIn(t *testing.T) {
	const add = "b.test:443"
	for name, tt := range map[string]struct{ text, want string }{
		"a new file":    {"default = \"deny\"\n", "default = \"deny\"\nallow = [\n  \"b.test:443\",\n]\n"},
		"no last line":  {"default = 'ask'", "default = 'ask'\nallow = [\n  \"b.test:443\",\n]\n"},
		"an empty list": {"default = 'deny'\nallow = []\n", "default = 'deny'\nallow = [\n  \"b.test:443\",\n]\n"},
		"one line":      {"default = 'deny'\nallow = ['a.test'] # mine\n", "default = 'deny'\nallow = [\n  \"b.test:443\",\n'a.test'] # mine\n"},
		"several lines": {"allow = [\n  'a.test', # a\n]\ndefault = 'deny'\n", "allow = [\n  \"b.test:443\",\n  'a.test', # a\n]\ndefault = 'deny'\n"},
		"it is there":   {"default = 'deny'\nallow = ['b.test:443']\n", "default = 'deny'\nallow = ['b.test:443']\n"},
		"a comment that looks like it": {"# x\n#allow = ['c.test']\ndefault = 'deny'\n",
			"# x\n#allow = ['c.test']\ndefault = 'deny'\nallow = [\n  \"b.test:443\",\n]\n"},
		"another list": {"default = 'deny'\ndeny = [\n  'a.test',\n]\n", "default = 'deny'\ndeny = [\n  'a.test',\n]\nallow = [\n  \"b.test:443\",\n]\n"},
	} {
		got, err := allowIn(tt.text, []string{add, add})
		if err != nil || got != tt.want {
			t.Errorf("%s: %v\n%s\nwant\n%s", name, err, got, tt.want)
		}
		if again, err := allowIn(got, []string{add}); err != nil || again != got {
			t.Errorf("%s, again: %v\n%s", name, err, again)
		}
	}
	for name, text := range map[string]string{
		"no policy":              "default = 1",
		"a pattern that is none": "default = 'deny'",
	} {
		pattern := "https://x"
		if name == "no policy" {
			pattern = add
		}
		if got, err := allowIn(text, []string{pattern}); err == nil {
			t.Errorf("%s: got %s, want an error", name, got)
		}
	}
}

// FuzzAllowIn: after an addition, the text is a policy with that addition. Otherwise the addition returns an error.
func FuzzAllowIn(f *testing.F) {
	for _, text := range []string{
		"default = 'deny'", "default = 'deny'\nallow = ['a.test']",
		"allow = [ ]\ndefault = 'ask'\n", "default = 'deny'\nports = [\n1,\n]\n", "\"allow\" = [\n]\ndefault='allow'",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if _, err := parse([]byte(text)); err != nil {
			return
		}
		got, err := allowIn(text, []string{"new.test:443"})
		if err != nil {
			return
		}
		if _, err := parse([]byte(got)); err != nil {
			t.Fatalf("got error %v, %q; want no error", err, got)
		}
		before, after := allowed(t, text), allowed(t, got)
		if !slices.Contains(after, "new.test:443") || len(after) > len(before)+1 {
			t.Errorf(`%q: got %q; want after with "new.test:443", len(after) at most %v`, text, got, len(before)+1)
		}
	})
}

func TestEgressFile(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "policy.toml")
	open := func() *File {
		t.Helper()
		f, err := Open(path)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = f.Close() })
		return f
	}
	f := open()
	if _, err := os.Stat(path); err == nil {
		t.Error("it was made before there was anything to add")
	}
	if err := f.Allow(t.Context(), "a.test:443"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got info %v, error %v; want no error, info.Mode().Perm() 0o600", info, err)
	}
	if c, err := Read(path); c == nil || err != nil {
		t.Error(err)
	}
	if err := os.Chmod(path, 0o640); err != nil {
		t.Fatal(err)
	}
	// Concurrent additions are all preserved.
	var adding sync.WaitGroup
	const several = 8
	for i := range several {
		adding.Go(func() {
			other, err := Open(path)
			if err == nil {
				err = other.Allow(t.Context(), fmt.Sprintf("host%d.test:1", i))
				_ = other.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	adding.Wait()
	text, err := os.ReadFile(path)
	if err != nil || len(allowed(t, string(text))) != several+1 {
		t.Errorf("got error %v, text:\n%s\nwant no error, len(allowed(t, string(text))) %v", err, text, several+1)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode has changed: %v, %v", info, err)
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 1 {
		t.Errorf("left behind: %v, %v", names, err)
	}
	// A link has replaced the file meanwhile. It is not followed, and stays.
	victim := filepath.Join(dir, "victim")
	if err := errorsOf(os.WriteFile(victim, []byte("default = 'deny'\n"), 0o600), os.Remove(path), os.Symlink(victim, path)); err != nil {
		t.Fatal(err)
	}
	if err := f.Allow(t.Context(), "b.test:443"); err == nil || !strings.Contains(err.Error(), "is a link") {
		t.Errorf("a link: %v", err)
	}
	if text, err := os.ReadFile(victim); err != nil || string(text) != "default = 'deny'\n" {
		t.Errorf("behind the link: %q, %v", text, err)
	}
}

func errorsOf(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

func TestEgressFileRefuses(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	if err := errorsOf(
		os.WriteFile(at("wrong"), []byte("default = 1"), 0o600), os.WriteFile(at("right"), []byte("default = 'deny'"), 0o600),
		os.WriteFile(at("large"), []byte("default = 'deny'\n#"+strings.Repeat("x", maxSize)), 0o600),
		os.Symlink("right", at("link")), os.Symlink(".", at("here")), os.Symlink("loop", at("loop")), syscall.Mkfifo(at("fifo"), 0o600),
		os.Mkdir(at("dir"), 0o700),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"right": "", "here/right": "", "new": "", "wrong": "is not a valid egress policy", "large": "is larger than", "link": "is a link", "fifo": "is not a regular file",
		"dir": "is not a regular file", "missing/new": "no such file", "loop/new": "too many levels",
	} {
		f, err := Open(at(name))
		if err == nil {
			_ = f.Close()
		}
		if (want == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf(`%s: got error %v; want want == "": %v, an error with %q`, name, err, err == nil, want)
		}
	}
	if os.Geteuid() != 0 {
		return // only root can create files of other users
	}
	const other = 65534
	if err := errorsOf(
		os.Lchown(at("here"), other, other), os.Chown(at("right"), other, other), os.Mkdir(at("theirs"), 0o755), os.Chown(at("theirs"), other, other),
	); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"here/new": "is a link of another user", "right": "belongs to another user", "theirs/new": "belongs to another user",
	} {
		if _, err := Open(at(name)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want an error with %q", name, err, want)
		}
	}
}

// TestEgressFileIsReadWhileItIsReplaced: if another codex replaces the file while it is
// being opened, that is not an error.
func TestEgressFileIsReadWhileItIsReplaced(t *testing.T) {
	dir := t.TempDir()
	path, next := filepath.Join(dir, "policy.toml"), filepath.Join(dir, "next")
	replace := func() error {
		return errorsOf(os.WriteFile(next, []byte("default = 'deny'\n"), 0o600), os.Rename(next, path))
	}
	if err := replace(); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var replacing sync.WaitGroup
	replacing.Go(func() {
		for ctx.Err() == nil {
			if err := replace(); err != nil {
				t.Error(err)
				return
			}
		}
	})
	for range 1000 {
		f, err := Open(path)
		if err != nil {
			t.Error(err)
			break
		}
		_ = f.Close()
	}
	stop()
	replacing.Wait()
}

// TestEgressFileLocked: if another codex seems to change the file, it stays unchanged.
func TestEgressFileLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "policy.toml")
	f, err := Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lock := filepath.Join(filepath.Dir(path), f.lockName())
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		if err := f.Allow(t.Context(), "a.test:1"); err == nil || !strings.Contains(err.Error(), "remove "+lock) {
			t.Errorf("got error %v, want an error with %q", err, "remove "+lock)
		}
	})
	if _, err := os.Stat(lock); err != nil {
		t.Errorf("the lock of the other one: %v", err)
	}
}
