package sandbox

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestSandboxByConfiguration uses the options of Codex CLI's codex sandbox: named permission
// profiles, config profiles, single values, and the order of the layers. Codex CLI 0.169.0 gives
// the same results with the same files, unless a case says otherwise.
func TestSandboxByConfiguration(t *testing.T) {
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	// Do not use /tmp, because :workspace makes it writable.
	home := filepath.Join(filepath.Dir(workspace), "home")
	harness.Must(t, os.MkdirAll(home, 0o755))
	t.Setenv("CODEX_HOME", home)
	put := func(path, text string) {
		t.Helper()
		harness.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		harness.Must(t, os.WriteFile(path, []byte(text), 0o644))
	}
	const trust = "trust_level = \"trusted\"\n"
	config, project := filepath.Join(home, "config.toml"), filepath.Join(workspace, ".codex", "config.toml")
	put(filepath.Join(home, "work.config.toml"), "default_permissions = \"dev\"\n")
	dev := "[permissions.dev]\nextends = \":workspace\"\n[permissions.dev.filesystem.\":workspace_roots\"]\nplain = \"deny\"\n"
	for _, tt := range []struct {
		name            string
		config, project string
		args            []string
		code            int
		out, errs       string // the operations that must work; a part of the expected stderr
	}{
		{"nothing is configured", "", "", nil, 0, "read ", ""},
		{"a named profile", dev, "", []string{"-P", "dev"}, 0, "here ", ""},
		{"a named profile by its long name", dev, "", []string{"--permission-profile=dev"}, 0, "here ", ""},
		{"a built-in profile", "", "", []string{"-P", ":workspace"}, 0, "read here ", ""},
		{"no sandbox", "", "", []string{"-P", ":danger-full-access"}, 0, "read here beside ", ""},
		{"another directory is the workspace then", dev, "", []string{"-P", "dev", "-C", beside}, 0, "read beside ", ""},
		{"the default of the configuration", "default_permissions = \"dev\"\n" + dev, "", nil, 0, "here ", ""},
		{"the default is no sandbox, which is told", "default_permissions = \":danger-full-access\"\n", "", nil, 0, "read here beside ", "the command runs without a sandbox"},
		{"an option counts more than the default", "default_permissions = \"dev\"\n" + dev, "", []string{"--read-only"}, 0, "read ", ""},
		{"a config profile over the user's file", "default_permissions = \":read-only\"\n" + dev, "", []string{"-p", "work"}, 0, "here ", ""},
		{"a value over both", "default_permissions = \":read-only\"\n" + dev, "", []string{"-p", "work", "-c", "default_permissions=:workspace"}, 0, "read here ", ""},
		{"a profile by a value", "", "", []string{"-c", `permissions.q={extends=":workspace"}`, "-P", "q"}, 0, "read here ", ""},
		{"the mode of a session", "sandbox_mode = \"workspace-write\"\n", "", nil, 0, "read ", ""},
		{"the mode as a value", "[sandbox_workspace_write]\nwritable_roots = [\"" + beside + "\"]\n", "", []string{"-c", "sandbox_mode=workspace-write"}, 0, "read here beside ", ""},
		{"a trusted project", "[projects.\"" + workspace + "\"]\n" + trust, "default_permissions = \"dev\"\n" + dev, nil, 0, "here ", ""},
		{"a project that is not trusted", "", "default_permissions = \":danger-full-access\"\n" + dev, nil, 0, "read ", ""},
		{"a profile of a project that is not trusted", "", dev, []string{"-P", "dev"}, 1, "", `no permission profile "dev"`},
		{"a profile that is missing", dev, "", []string{"-P", "nosuch"}, 1, "", `no permission profile "nosuch"; there are dev, :read-only`},
		{"a built-in one that there is not", "", "", []string{"-P", ":all"}, 2, "", "unknown built-in permission profile"},
		{"a broken file", "broken =", "", nil, 1, "", "config.toml:1:8"},
		{"a mode that there is not", "", "", []string{"-c", "sandbox_mode=all"}, 2, "", "got all"},
		{"no value", "", "", []string{"-c", "sandbox_mode"}, 2, "", "missing '='"},
		{"a config profile that is missing, which Codex CLI overlooks", "", "", []string{"-p", "play"}, 1, "", "play.config.toml does not exist; to use a permission profile in a file, give --profile-file"},
		{"a file as config profile", "", "", []string{"--profile", "./p.json"}, 2, "", "--profile-file FILE"},
		{"two of them", dev, "", []string{"-P", "dev", "--read-only"}, 2, "", "--read-only and --permission-profile exclude each other"},
		{"a named profile and the network", dev, "", []string{"-P", "dev", "--network"}, 2, "", "cannot be used with --permission-profile"},
		{"the state of a session", "", "", []string{"--sandbox-state-json", "{}"}, 2, "", "an option of Codex CLI that this program does not have"},
		{"its network", "", "", []string{"--sandbox-state-disable-network"}, 2, "", "this program does not have"},
		{"the administrator's requirements", "", "", []string{"--include-managed-config"}, 2, "", "requirements.toml is not read"},
		{"a feature", "", "", []string{"--enable", "x"}, 2, "", "no features"},
	} {
		put(config, tt.config)
		put(project, tt.project)
		script := `cat "$1/plain" >/dev/null && printf 'read '; (: >"$1/.made") 2>/dev/null && printf 'here '; (: >"$2/.made") 2>/dev/null && printf 'beside '; exit 0`
		args := append(append([]string{"sandbox"}, tt.args...), "--", "sh", "-c", "exec 3>&2 2>/dev/null; "+script, "sh", workspace, beside)
		out, errs, code := runIn(t, workspace, "", args...)
		if code != tt.code || out != tt.out || !strings.Contains(errs, tt.errs) || tt.errs == "" && errs != "" {
			t.Errorf("%s: exit code %d, %q, %q", tt.name, code, out, errs)
		}
	}
}

// TestWritableRootsOfTheServer: --writable-root and the short forms mean the same for the sandbox
// of a server and for that of this machine.
func TestWritableRootsOfTheServer(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	workspace, beside := harness.Places(t)
	_, url := harness.Server(t)
	profile := filepath.Join(beside, "profile.json")
	harness.Must(t, os.WriteFile(profile, []byte(`{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[`+
		`{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":"`+beside+`"},"access":"write"}]}}`), 0o644))
	for _, tt := range []struct {
		name      string
		args      []string
		code      int
		out, errs string
	}{
		{"no root", []string{"--workspace-write"}, 0, "here ", ""},
		{"an absolute one", []string{"--workspace-write", "--writable-root", beside}, 0, "here beside ", ""},
		{"a relative one", []string{"--sandbox", "workspace-write", "--writable-root", "../beside"}, 0, "here beside ", ""},
		{"read-only", []string{"--read-only"}, 0, "", ""},
		{"a profile in a file", []string{"--profile-file", profile}, 0, "beside ", ""},
		{"a profile on stdin", []string{"--profile-file", "-"}, 2, "", "the standard input is the command's"},
		{"a file that is none", []string{"--profile-file", filepath.Join(workspace, "plain")}, 1, "", "is not JSON"},
		{"a file that is missing", []string{"--profile-file", "nosuch"}, 1, "", "nosuch: no such file"},
		{"a root without a policy that writes", []string{"--read-only", "--writable-root", beside}, 2, "", "--writable-root needs --workspace-write"},
		{"two policies", []string{"--read-only", "--workspace-write"}, 2, "", "exclude each other"},
	} {
		for _, command := range []string{"run", "exec"} {
			args := append([]string{"remote", command, "--url", url, "--cwd", workspace}, tt.args...)
			out, errs, code := runIn(t, workspace, "", append(args, "--", "sh", "-c",
				`(: >"$1/.made") 2>/dev/null && printf 'here '; (: >"$2/.made") 2>/dev/null && printf 'beside '; exit 0`, "sh", workspace, beside)...)
			want := tt.code
			if command == "exec" && want == 1 {
				want = 125 // the exit code for failures of codex, which differ from those of the command
			}
			if code != want || out != tt.out || !strings.Contains(errs, tt.errs) {
				t.Errorf("%s, %s: exit code %d, %q, %q", command, tt.name, code, out, errs)
			}
		}
	}
}
