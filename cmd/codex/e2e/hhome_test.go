//go:build linux

package e2e

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

// homeDirectory makes a home for codex that is below no directory for
// temporary files, as the aliases want it, and returns it with an environment
// that names it.
func homeDirectory(t *testing.T, files map[string]string) (home string, env []string) {
	t.Helper()
	home, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	for name, text := range files {
		must(t, os.WriteFile(filepath.Join(home, name), []byte(text), 0o600))
	}
	temp := t.TempDir()
	env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "CODEX_") })
	return home, append(env, "CODEX_HOME="+home, "TMPDIR="+temp)
}

// runWith runs codex with an environment to its end. HOME in what it says
// stands for the path of home.
func runWith(t *testing.T, env []string, home, stdin string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.Command(codex, args...)
	var out, errs bytes.Buffer
	cmd.Env, cmd.Stdin, cmd.Stdout, cmd.Stderr = env, strings.NewReader(stdin), &out, &errs
	timer := time.AfterFunc(patience, func() { _ = cmd.Process.Kill() })
	defer timer.Stop()
	var exit *exec.ExitError
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	short := func(b *bytes.Buffer) string { return strings.ReplaceAll(b.String(), home, "HOME") }
	return short(&out), short(&errs), cmd.ProcessState.ExitCode()
}

// withoutLog drops the lines of the log.
func withoutLog(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		if !strings.HasPrefix(line, "time=") {
			b.WriteString(line)
		}
	}
	return b.String()
}
