package broker_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// The tests of this file run the launcher with the backend broker. The command is this test program, which makes the calls of a
// table (calledInside) and prints their errors.

// inside is the variable that names what the command does.
const inside = "CODEX_BROKER_INSIDE"

func TestMain(m *testing.M) {
	if what := os.Getenv(inside); what != "" {
		os.Exit(actInside(what))
	}
	unix.Umask(0o022)
	code := m.Run()
	if dir := launcherDir; dir != "" {
		_ = os.RemoveAll(dir)
	}
	os.Exit(code)
}

// actInside makes the calls of one act, and prints the errors as JSON.
func actInside(what string) int {
	results := acts[what](".")
	if err := json.NewEncoder(os.Stdout).Encode(results); err != nil {
		return 1
	}
	return 0
}

var launcherDir string

// launcher builds the launcher.
var launcher = sync.OnceValues(func() (string, error) {
	var err error
	if launcherDir, err = os.MkdirTemp("/var/tmp", "broker"); err != nil {
		return "", err
	}
	name := filepath.Join(launcherDir, "codex-linux-sandbox")
	return name, testutil.Build(name, "..")
})

// workspace makes a directory with something protected and something not.
func workspace(t *testing.T) string {
	t.Helper()
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{".git/hooks", "d", "docs/secret"} {
		must(t, os.MkdirAll(filepath.Join(dir, name), 0o755))
	}
	for _, name := range []string{".git/config", "f", "d/f", "docs/secret/f"} {
		must(t, os.WriteFile(filepath.Join(dir, name), []byte("before"), 0o644))
	}
	must(t, os.Symlink(".git/config", filepath.Join(dir, "link")))
	must(t, os.Symlink(".codex", filepath.Join(dir, "dangling")))
	return dir
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// sandboxed returns the command of a sandbox that may write to a workspace, but not to docs/secret. The launcher uses a version of
// Landlock.
func sandboxed(t *testing.T, dir string, version int, command ...string) *exec.Cmd {
	t.Helper()
	program, err := launcher()
	must(t, err)
	profile := fmt.Sprintf(`{"type":"managed","file_system":{"type":"restricted","entries":[
		{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},
		{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},
		{"path":{"type":"path","path":%q},"access":"read"}]},"network":"restricted"}`, filepath.Join(dir, "docs/secret"))
	args := append([]string{"--backend", "broker", "--landlock-at-most", strconv.Itoa(version), "--sandbox-policy-cwd", dir, "--permission-profile", profile, "--"}, command...)
	cmd := exec.Command(program, args...)
	cmd.Dir, cmd.Stderr = dir, os.Stderr
	return cmd
}

// act runs an act in a sandbox with further options, and returns the errors of its calls.
func act(t *testing.T, dir string, version int, what string, options ...string) map[string]syscall.Errno {
	t.Helper()
	return actWith(t, dir, version, what, func(cmd *exec.Cmd) { cmd.Args = slices.Insert(cmd.Args, 1, options...) })
}

// actWith is act in a sandbox that change changes.
func actWith(t *testing.T, dir string, version int, what string, change func(cmd *exec.Cmd)) map[string]syscall.Errno {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := sandboxed(t, dir, version, self)
	change(cmd)
	cmd.Env = append(os.Environ(), inside+"="+what)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("run the act %s: %v", what, err)
	}
	results := make(map[string]syscall.Errno)
	must(t, json.Unmarshal(out, &results))
	return results
}

// versions are those of Landlock at which the broker does something else: truncation from 3, signals from 6.
var versions = []int{2, 3, 6}

// eachVersion runs a test with each of the versions that this machine has.
func eachVersion(t *testing.T, test func(t *testing.T, version int)) {
	for _, version := range versions {
		t.Run("version "+strconv.Itoa(version), func(t *testing.T) {
			machine.NeedLandlock(t, version)
			test(t, version)
		})
	}
}

// errno returns the kernel's error.
func errno(err error) syscall.Errno {
	var number syscall.Errno
	if err != nil && !errors.As(err, &number) {
		panic(err)
	}
	return number
}

func itoa(n int) string { return strconv.Itoa(n) }

// snapshot describes all that is protected in a workspace: modes, owners, times, sizes, contents and names.
func snapshot(t *testing.T, dir string) string {
	t.Helper()
	var b strings.Builder
	top, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range top {
		if strings.HasPrefix(e.Name(), ".") {
			b.WriteString(e.Name() + "\n")
		}
	}
	for _, part := range []string{".git", "docs/secret"} {
		must(t, filepath.WalkDir(filepath.Join(dir, part), func(at string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			var st unix.Stat_t
			if err := unix.Lstat(at, &st); err != nil {
				return err
			}
			text, _ := os.ReadFile(at)
			size, err := unix.Llistxattr(at, nil)
			fmt.Fprintf(&b, "%s %o %d:%d %d %v %d %q %d %v\n", at, st.Mode, st.Uid, st.Gid, st.Nlink, st.Mtim, st.Size, text, size, err)
			return nil
		}))
	}
	return b.String()
}
