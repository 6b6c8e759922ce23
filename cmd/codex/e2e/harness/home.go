package harness

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// HomeDirectory creates a home for codex, and returns it with an environment that names it. The
// home is not in a directory for temporary files, because aliases are not created there.
func HomeDirectory(t *testing.T, files map[string]string) (home string, env []string) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	Must(t, err)
	for name, text := range files {
		Must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	temp := t.TempDir()
	env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CODEX_") })
	return home, append(env, "CODEX_HOME="+home, "TMPDIR="+temp)
}

// RunWith runs codex with an environment to its end. In its output, HOME stands
// for the path of home.
func RunWith(t *testing.T, env []string, home, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(Codex, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, strings.NewReader(stdin), &out, &errs
	timer := time.AfterFunc(Patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	short := func(b *bytes.Buffer) string { return strings.ReplaceAll(b.String(), home, "HOME") }
	return short(&out), short(&errs), cmd.ProcessState.ExitCode()
}

// WithoutLog drops the lines of the log.
func WithoutLog(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString(line)
		}
	}
	return b.String()
}
