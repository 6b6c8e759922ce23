package cli

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

const steering = "\x1b[31m\x1b]0;title\a\u202e\u009b31m"

// TestNothingFromElsewhereSteersTheTerminal: on a terminal, names and errors from a server are
// escaped. A program gets names unchanged.
func TestNothingFromElsewhereSteersTheTerminal(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	name := "a\n\tb" + steering
	harness.Must(t, os.WriteFile(filepath.Join(dir, name), nil, 0o600))
	out, errs, code := harness.Alone(t, nil, "remote", "ls", "--url", url, dir)
	if code != 0 || out != name+"\n" {
		t.Errorf("ls to a program: exit code %d, %q, %q", code, out, errs)
	}
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte("a" + steering + "\nError: b"))
	}))
	defer refusing.Close()
	for _, args := range [][]string{
		{"ls", "--url", url, dir},
		{"ls", "-l", "--url", url, dir},
		{"cp", "-r", "--url", url, ":" + dir, filepath.Join(t.TempDir(), "copy")},
		{"ls", "--url", url, filepath.Join(dir, "missing"+name)},
		{"run", "--url", url, "--cwd", dir, "--", "./missing" + name},
		{"info", "--url", "ws" + strings.TrimPrefix(refusing.URL, "http")},
	} {
		u := harness.AtTerminal(t, append([]string{"remote"}, args...)...)
		text, _ := u.End()
		if !strings.Contains(text, `\x1b[31m`) && !strings.Contains(text, `\u001b[31m`) || strings.ContainsAny(text, "\x1b\a\u202e\u009b") || strings.Contains(text, "\nError: b") {
			t.Errorf("%s: got %q; want a text with %q or with %q, a text with none of \"\\x1b\\a\\u202e\\u009b\", a text without %q", args[0], text, `\x1b[31m`, `\u001b[31m`, "\nError: b")
		}
	}
}
