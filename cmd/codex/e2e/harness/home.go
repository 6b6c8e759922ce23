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

	codexhome "codex.internal/pkg/account/home"
	"codex.internal/pkg/execclient"
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

// WrittenProgram returns the program of an environment in environments.toml, as Codex CLI starts it.
// The file must have only members that Codex CLI 0.142.0 knows, too.
func WrittenProgram(t *testing.T, home string, env []string, id string) execclient.Command {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(home, "environments.toml"))
	Must(t, err)
	var file struct {
		Default      string `toml:"default"`
		IncludeLocal bool   `toml:"include_local"`
		Environments []struct {
			ID      string   `toml:"id"`
			URL     string   `toml:"url"`
			Program string   `toml:"program"`
			Args    []string `toml:"args"`
		} `toml:"environments"`
	}
	if err := codexhome.DecodeTOML(text, &file, true); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	for _, e := range file.Environments {
		if e.ID == id && e.Program != "" {
			return execclient.Command{Path: e.Program, Args: e.Args, Env: env, Stderr: ShownOnFailure(t)}
		}
	}
	t.Fatalf("got no program of %s in %s", id, text)
	return execclient.Command{}
}
