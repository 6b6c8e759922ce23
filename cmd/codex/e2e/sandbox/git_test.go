package sandbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// TestAllowGit: --allow-git, and the special path :git in every form of a profile, let a command commit and not change the
// configuration, on this machine and on a server.
func TestAllowGit(t *testing.T) {
	harness.NeedSandbox(t)
	_, err := exec.LookPath("git")
	testutil.Need(t, "git", err, exec.ErrNotFound)
	workspace, _ := harness.Places(t)
	home := filepath.Join(filepath.Dir(workspace), "home")
	harness.Must(t, os.MkdirAll(home, 0o755))
	t.Setenv("CODEX_HOME", home)
	harness.Must(t, os.WriteFile(filepath.Join(home, "config.toml"), []byte("[permissions.dev]\nextends = \":workspace\"\n[permissions.dev.filesystem]\n\":git\" = \"write\"\n"), 0o644))
	if out, err := exec.Command("sh", "-c", `rm -rf "$1/.git"; git init -q "$1"`, "sh", workspace).CombinedOutput(); err != nil {
		t.Fatalf("make a repository: %v: %s", err, out)
	}
	profile := `{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},` +
		`{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"write"},{"path":{"type":"special","value":{"kind":"unknown","path":":git"}},"access":"write"}]}}`
	file := filepath.Join(home, "profile.json")
	harness.Must(t, os.WriteFile(file, []byte(profile), 0o644))
	_, url := harness.Server(t)
	local, run, exe := []string{"sandbox"}, []string{"remote", "run", "--url", url, "--cwd", workspace}, []string{"remote", "exec", "--url", url, "--cwd", workspace}
	for _, tt := range []struct {
		name    string
		command []string
		options []string
		code    int
		out     string
		errs    string // a part of the expected stderr
	}{
		{"without it", local, []string{"--workspace-write"}, 0, "", ""},
		{"with it", local, []string{"--workspace-write", "--allow-git"}, 0, "committed ", ""},
		{"a profile of the configuration", local, []string{"-P", "dev"}, 0, "committed ", ""},
		{"a profile in a file", local, []string{"--profile-file", file}, 0, "committed ", ""},
		{"on a server without it", run, []string{"--sandbox", "workspace-write"}, 0, "", ""},
		{"on a server", run, []string{"--sandbox", "workspace-write", "--allow-git"}, 0, "committed ", ""},
		{"on a server with a profile", run, []string{"--sandbox", profile}, 0, "committed ", ""},
		{"on a server that asks", exe, []string{"--workspace-write", "--allow-git"}, 0, "committed ", ""},
		{"without the work tree", local, []string{"--allow-git"}, 2, "", "--allow-git needs --workspace-write"},
		{"read-only on a server", run, []string{"--read-only", "--allow-git"}, 2, "", "--allow-git needs --workspace-write"},
		{"with a whole profile", local, []string{"--profile-file", file, "--allow-git"}, 2, "", "add an entry for the special path :git"},
		{"on Windows", local, []string{"--workspace-write", "--allow-git", "--explain", "--target", "windows"}, 2, "", "--allow-git cannot be used with --target windows"},
		{"with Landlock alone", local, []string{"--workspace-write", "--allow-git", "--backend", "landlock", "--stricter"}, 125, "", "it cannot protect the configuration and the hooks of the git repository"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			args := append(append(append([]string{}, tt.command...), tt.options...), "--", "sh", "-c",
				`git -c user.name=t -c user.email=t@example.invalid commit -q --allow-empty -m x 2>/dev/null && printf 'committed '; git config core.pager evil 2>/dev/null && printf 'changed '; exit 0`)
			out, errs, code := runIn(t, workspace, "", args...)
			if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) {
				t.Errorf("got exit code %d, %q, %q; want %d, %q, %q", code, out, errs, tt.code, tt.out, tt.errs)
			}
		})
	}
}
