package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

func TestExecServerOptions(t *testing.T) {
	t.Parallel()
	usage := func(more string) string {
		return "\n\nUsage: codex exec-server --environment-id <ID> --remote <URL>" + more + "\n\nFor more information, try '--help'.\n"
	}
	const conflict = "error: the argument '--remote <URL>' cannot be used with '--listen <URL>'"
	const missing = "error: the following required arguments were not provided:\n"
	const signIn = "Error: remote exec-server registration requires ChatGPT authentication or API key authentication; run `codex login` or set CODEX_API_KEY\n" +
		"hint: for codex rendezvous set CODEX_RENDEZVOUS_TOKEN to a token: on its machine, run codex rendezvous token create --role executor\n"
	const noFile = "Error: read the options of --config: open foo: no such file or directory\n" +
		"hint: without =, --config names a file with options; a value of config.toml is KEY=VALUE\n"
	stdio := []string{"--listen", "stdio"}
	remote := []string{"--remote", "http://x", "--environment-id", "e"}
	for _, tt := range []struct {
		name, config string
		before, args []string // options before the command, and arguments after it
		code         int
		errs         string
	}{
		{"remote without an id", "", nil, []string{"--remote", "http://x"}, 2, missing + "  --environment-id <ID>" + usage("")},
		{"remote and name without an id", "", nil, []string{"--remote", "http://x", "--name", "n"}, 2, missing + "  --environment-id <ID>" + usage(" --name <NAME>")},
		{"remote and listen", "", nil, []string{"--remote", "http://x", "--listen", "stdio"}, 2, conflict + usage("")},
		{"remote, id and listen", "", nil, append(remote, "--listen", "stdio"), 2, conflict + "\n\nUsage: codex exec-server --remote <URL> --environment-id <ID>\n\nFor more information, try '--help'.\n"},
		{"identity without remote", "", nil, []string{"--use-agent-identity-auth"}, 2, missing + "  --environment-id <ID>\n  --remote <URL>" + usage(" --use-agent-identity-auth")},
		{"identity with an id", "", nil, []string{"--use-agent-identity-auth", "--environment-id", "e"}, 2, missing + "  --remote <URL>" + usage(" --use-agent-identity-auth")},
		{"id and name without remote", "", nil, append(stdio, "--environment-id", "e", "--name", "n"), 0, ""},
		{"remote, not signed in", "", nil, remote, 1, signIn},
		{"bad listen", "", nil, []string{"--listen", "foo"}, 1, "Error: unsupported --listen URL `foo`; expected `ws://IP:PORT` or `stdio`\n" +
			"hint: --listen takes ws://IP:PORT or wss://IP:PORT (port 0: any free one), unix:///PATH or stdio\n"},
		{"remote before the command", "", []string{"--remote", "ws://u"}, stdio, 1, "Error: `--remote ws://u` is only supported for interactive TUI commands, not `codex exec-server`\n"},
		{"token before the command", "", []string{"--remote-auth-token-env", "T"}, stdio, 1, "Error: `--remote-auth-token-env` is only supported for interactive TUI commands, not `codex exec-server`\n"},
		{"bad config while listening", "nope = ", nil, stdio, 0, ""},
		{"bad config, strictly", "nope = ", nil, append(stdio, "--strict-config"), 1, "Error: HOME/config.toml:1:7: expected value, not end of input\n"},
		{"bad config, remote", "\nmodel = \"m", nil, remote, 1, "Error: HOME/config.toml:2:10: unterminated basic string\n"},
		{"bad type, remote", "chatgpt_base_url = 5", nil, remote, 1, "Error: HOME/config.toml:1:20: invalid type: integer, expected a string\n"},
		{"unknown key", "nope = 1", nil, stdio, 0, ""},
		{"unknown key, strictly", "nope = 1", nil, append(stdio, "--strict-config"), 1, "Error: HOME/config.toml:1:1: unknown configuration field `nope`\n"},
		{"strict before the command", "nope = 1", []string{"--strict-config"}, stdio, 1, "Error: HOME/config.toml:1:1: unknown configuration field `nope`\n"},
		{"known keys, strictly", "model = \"m\"\n[tui]\nx = 1", nil, append(stdio, "--strict-config"), 0, ""},
		{"no config, strictly", "", nil, append(stdio, "--strict-config"), 0, ""},
		{"override while listening", "", nil, append(stdio, "-c", "foo=1,2"), 0, ""},
		{"unknown override, strictly", "", nil, append(stdio, "--strict-config", "-c", "model=m", "-c", "nope=1,2"), 1, "Error: unknown configuration field `nope` in -c/--config override\n"},
		{"override before the command", "", []string{"-c", "nope=1"}, append(stdio, "--strict-config"), 1, "Error: unknown configuration field `nope` in -c/--config override\n"},
		{"override without a value", "", nil, append(remote, "--config", "foo"), 1, noFile},
		{"override without a value while listening", "", nil, append(stdio, "-c", "foo"), 1, noFile},
		{"override, remote", "", nil, append(remote, "-c", "chatgpt_base_url=https://x"), 1, signIn},
	} {
		t.Run(tt.name, func(t *testing.T) {
			files := map[string]string{}
			if tt.config != "" {
				files["config.toml"] = tt.config
			}
			home, env := harness.HomeDirectory(t, files)
			args := slices.Concat(tt.before, []string{"exec-server"}, tt.args)
			out, errs, code := harness.RunWith(t, env, home, "", args...)
			if code != tt.code || out != "" || harness.WithoutLog(errs) != tt.errs {
				t.Errorf("exit code %d, %q, want %d, %q", code, errs, tt.code, tt.errs)
			}
		})
	}
}

func TestNamesOfProgramsThatAreNotHere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"apply_patch", "applypatch", "codex-execve-wrapper"} {
		link := filepath.Join(dir, name)
		harness.Must(t, os.Symlink(harness.Codex, link))
		cmd := exec.Command(link, "x")
		out, _ := cmd.CombinedOutput()
		if want := "Error: " + name + ": this program is not part of this codex; it has codex-fs and codex-linux-sandbox\n"; string(out) != want || cmd.ProcessState.ExitCode() != 1 {
			t.Errorf("%s: got cmd.ProcessState.ExitCode() %d, stdout %s; want stdout %s, cmd.ProcessState.ExitCode() 1", name, cmd.ProcessState.ExitCode(), out, want)
		}
	}
	for _, tt := range []struct{ patch, want string }{
		{"", "Error: --codex-run-as-apply-patch requires a UTF-8 PATCH argument.\n"},
		{"\xff", "Error: --codex-run-as-apply-patch requires a UTF-8 PATCH argument.\n"},
		{"x", "Error: --codex-run-as-apply-patch: the tool that applies patches is not part of this codex\n"},
	} {
		args := []string{"--codex-run-as-apply-patch"}
		if tt.patch != "" {
			args = append(args, tt.patch)
		}
		if _, errs, code := harness.Run(t, "", args...); code != 1 || errs != tt.want {
			t.Errorf("%q: got exit code %d, stderr %q; want exit code 1, stderr %q", tt.patch, code, errs, tt.want)
		}
	}
}

// inServer starts a server on stdin and stdout with an environment. Through a client it runs a
// shell script there, and returns the output.
func inServer(t *testing.T, env []string, home, script string) (out, errs string) {
	t.Helper()
	out, errs, code := harness.RunWith(t, env, home, "", "remote", "--env", "local", "run", "--", "sh", "-c", script)
	if code != 0 {
		t.Errorf("exit code %d, %q", code, errs)
	}
	return out, errs
}

func TestServersOfferAliases(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, map[string]string{".env": "FROM_DOTENV=yes\nCODEX_LOG=nonsense\n"})
	out, errs := inServer(t, env, home, `dir=${PATH%%:*}; ls -A "$dir"; readlink "$dir/codex-linux-sandbox"; echo "$dir" "$FROM_DOTENV"; codex-linux-sandbox --help 2>&1 | grep -o -m 1 permission-profile`)
	lines := strings.Split(out, "\n")
	if want := []string{".lock", "codex-fs", "codex-linux-sandbox", harness.Codex}; errs != "" || len(lines) != 7 || !slices.Equal(lines[:4], want) ||
		!strings.HasPrefix(lines[4], "HOME/tmp/arg0/codex-arg0") || !strings.HasSuffix(lines[4], " yes") || lines[5] != "permission-profile" {
		t.Errorf(`got stdout %q, stderr %q; want stderr "", len(lines) 7, lines[:4] %v, lines[4] beginning with "HOME/tmp/arg0/codex-arg0", lines[4] ending in " yes", lines[5] "permission-profile"`, out, errs, want)
	}
	if left, err := os.ReadDir(filepath.Join(home, "tmp", "arg0")); err != nil || len(left) != 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestServersRemoveWhatKilledOnesLeft(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	start := func() *exec.Cmd {
		cmd := exec.Command(harness.Codex, "exec-server")
		cmd.Env = env
		out, err := cmd.StdoutPipe()
		harness.Must(t, err)
		harness.Must(t, cmd.Start())
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
			t.Fatalf("%q: got error %v, want no error", line, err)
		}
		return cmd
	}
	left := func() string {
		dirs, err := filepath.Glob(filepath.Join(home, "tmp", "arg0", "*"))
		harness.Must(t, err)
		return strings.Join(dirs, " ")
	}
	killed := start()
	harness.Must(t, killed.Process.Kill())
	_ = killed.Wait()
	stale := left()
	if stale == "" {
		t.Fatal("nothing is left")
	}
	start()
	testutil.Eventually(t.Context(), t, "no "+stale, func() (string, bool) { return left(), !strings.Contains(left(), stale) })
}

func TestServersWorkWithoutAliases(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	const warning = "WARNING: proceeding, even though we could not create PATH aliases: "
	for _, tt := range []struct{ name, home, temp, want string }{
		{"no home", home + "/none/none", home + "/none/none", `CODEX_HOME points to "HOME/none/none", but that path does not exist`},
		{"below the temporary directory", home, filepath.Dir(home), `Refusing to create helper binaries under temporary dir "` + filepath.Dir(home) + `" (codex_home: "HOME")`},
	} {
		env := append(slices.Clone(env), "CODEX_HOME="+tt.home, "TMPDIR="+tt.temp)
		if _, errs, code := harness.RunWith(t, env, home, "", "exec-server", "--listen", "stdio"); code != 0 || harness.WithoutLog(errs) != warning+tt.want+"\n" {
			t.Errorf("%s: got exit code %d, stderr %q; want exit code 0, harness.WithoutLog(errs) %v", tt.name, code, errs, warning+tt.want+"\n")
		}
	}
}

// someEnvironments creates a home directory with environments: a server at a URL, a program, and
// one that fails. codex runs codex with that home directory.
func someEnvironments(t *testing.T) (url string, codex func(args ...string) (string, string, int)) {
	t.Helper()
	_, url = harness.Server(t)
	home, env := harness.HomeDirectory(t, map[string]string{"environments.toml": `default = "devbox"
[[environments]]
id = "devbox"
url = "` + url + `/?token=secret"
[[environments]]
id = "program"
program = "` + harness.Codex + `"
args = ["exec-server", "--listen", "stdio", "--name", "secret"]
cwd = "work"
env = {FROM_FILE = "secret"}
[[environments]]
id = "broken"
program = "sh"
args = ["-c", "echo no such host >&2; exit 255"]
`})
	harness.Must(t, os.Mkdir(filepath.Join(home, "work"), 0o700))
	return url, func(args ...string) (string, string, int) { return harness.RunWith(t, env, home, "", args...) }
}

func TestEnvironments(t *testing.T) {
	t.Parallel()
	url, codex := someEnvironments(t)
	out, errs, code := codex("environments", "list")
	if code != 0 || errs != "" || !strings.HasPrefix(out, "   id       kind       ") || !strings.Contains(out, "*  devbox") || strings.Contains(out, "secret") || strings.Count(out, "\n") != 5 {
		t.Errorf("list: %d, %q, %q", code, out, errs)
	}
	out, _, code = codex("environments", "list", "--json")
	var listed struct {
		Default, Source string
		Environments    []struct {
			ID, Kind, Address, Source string
			Default                   bool
		}
	}
	harness.Must(t, json.Unmarshal([]byte(out), &listed))
	if code != 0 || listed.Default != "devbox" || listed.Source != "HOME/environments.toml" || len(listed.Environments) != 4 || strings.Contains(out, "secret") ||
		listed.Environments[1].Address != url+"/" || !listed.Environments[1].Default || listed.Environments[0].Kind != "local" {
		t.Errorf("list --json: %d, %s", code, out)
	}

	out, errs, code = codex("environments", "check", "--json")
	var checked []struct {
		ID, Error, OS, Sandbox string
		OK                     bool
		ConnectMs, RoundTripMs float64
		Shell                  struct{ Path string }
	}
	harness.Must(t, json.Unmarshal([]byte(out), &checked))
	if code != 1 || errs != "" || len(checked) != 4 || strings.Contains(out, "secret") {
		t.Fatalf("check --json: %d, %s, %s", code, out, errs)
	}
	for _, c := range checked {
		switch {
		case c.ID == "broken":
			if c.OK || !strings.HasSuffix(c.Error, "; the program said: no such host") {
				t.Errorf(`got %+v; want c.OK false, c.Error ending in "; the program said: no such host"`, c)
			}
		case !c.OK || c.OS != "linux" || c.ConnectMs <= 0 || c.RoundTripMs <= 0 || c.Shell.Path == "" || c.Sandbox != "yes" && c.Sandbox != "no":
			t.Errorf(`got %+v; want c.OK true, c.OS "linux", c.ConnectMs more than 0, c.RoundTripMs more than 0, c.Shell.Path other than "", c.Sandbox "yes" or "no"`, c)
		}
	}
	out, _, _ = codex("environments", "check")
	if rows := strings.Split(out, "\n"); len(rows) != 6 || !strings.HasPrefix(rows[1], "local    ok      ") || !strings.HasPrefix(rows[2], "devbox   ok      ") ||
		!strings.HasPrefix(rows[3], "program  ok      ") || !strings.HasPrefix(rows[4], "broken   FAILED  sh ... (HOME/environments.toml): ") {
		t.Errorf("check: %s; want the order of list, and aligned columns", out)
	}
	if out, _, code := codex("environments", "check", "devbox", "program"); code != 0 || strings.Count(out, " ok ") != 2 {
		t.Errorf("check of two: %d, %s", code, out)
	}
	if _, errs, code := codex("environments", "check", "nope"); code != 2 || errs != "error: there is no environment `nope` in HOME/environments.toml; there are: devbox, local, program, broken\n" {
		t.Errorf("check of none: %d, %s", code, errs)
	}
}

// TestChosenEnvironment: the command line chooses the environment of a command.
func TestChosenEnvironment(t *testing.T) {
	t.Parallel()
	url, codex := someEnvironments(t)
	for _, tt := range []struct {
		name string
		args []string
		code int
		want string // expected in stdout or stderr
	}{
		{"the default", []string{"info"}, 0, "server     " + url + "/ "},
		{"before the command", []string{"--env", "program", "run", "--env", "A=b,c", "--", "sh", "-c", `pwd; echo "$A"`}, 0, "HOME/work\nb,c\n"},
		{"after the command", []string{"run", "--env", "program", "--env", "A=b", "--", "sh", "-c", `echo "$A"`}, 0, "b\n"},
		{"of another command", []string{"cat", "--env", "program", "/proc/self/comm"}, 0, "codex\n"},
		{"the later one", []string{"--env", "broken", "info", "--env", "local"}, 0, "this machine"},
		{"a URL before all", []string{"--env", "broken", "info", "--url", url}, 0, "server     " + url + " "},
		{"unknown", []string{"--env", "nope", "ls"}, 2, "there is no environment `nope` in HOME/environments.toml"},
		{"two at once", []string{"run", "--env", "a", "--env", "b", "--", "true"}, 2, "a and b cannot both be the environment"},
		{"broken", []string{"run", "--env", "broken", "--", "true"}, 255, "environment `broken` of HOME/environments.toml: "},
	} {
		out, errs, code := codex(append([]string{"remote"}, tt.args...)...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) {
			t.Errorf("%s: got exit code %d, stdout %q, stderr %q; want exit code %d, out+errs with %q", tt.name, code, out, errs, tt.code, tt.want)
		}
	}
}

func TestWithoutAFileOfEnvironments(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	_, url := harness.Server(t)
	for _, tt := range []struct {
		name, variable string
		args           []string
		code           int
		want           string // expected in stdout or stderr
	}{
		{"this machine", "", []string{"remote", "run", "--", "pwd"}, 0, "codex: no server is named by --url, --env, environments.toml or CODEX_EXEC_SERVER_URL: this is the local environment\n"},
		{"a URL", "CODEX_EXEC_SERVER_URL=" + url, []string{"remote", "info"}, 0, "server     " + url + " "},
		{"no local beside a URL", "CODEX_EXEC_SERVER_URL=" + url, []string{"remote", "--env", "local", "ls"}, 2, "there is no environment `local` in CODEX_EXEC_SERVER_URL; there are: remote"},
		{"none", "CODEX_EXEC_SERVER_URL=none", []string{"remote", "ls"}, 2, "error: which environment? CODEX_EXEC_SERVER_URL is none; give --env ID or --url ws://HOST:PORT\n"},
		{"none to list", "CODEX_EXEC_SERVER_URL=none", []string{"environments", "list"}, 0, "No environments: CODEX_EXEC_SERVER_URL is none.\n"},
		{"none to check", "CODEX_EXEC_SERVER_URL=none", []string{"environments", "check"}, 1, "Error: no environments are configured: CODEX_EXEC_SERVER_URL is none\n"},
		{"part of a registry", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=secret", []string{"remote", "ls"}, 1, "Error: environment registry configuration error: Noise environment requires CODEX_EXEC_SERVER_NOISE_REGISTRY_URL"},
		{"what is missing of a registry", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=secret", []string{"environments", "list"}, 1, "\nhint: not set: CODEX_EXEC_SERVER_NOISE_REGISTRY_URL, CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID; codex remote --env ID does without CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID\n"},
		{"what is missing beside an id", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=secret", []string{"remote", "--env", "box", "ls"}, 1, "\nhint: not set: CODEX_EXEC_SERVER_NOISE_REGISTRY_URL"},
		{"no home", "CODEX_HOME=" + home + "/none", []string{"environments", "list"}, 1, "Error: CODEX_HOME points to \"HOME/none\", but that path does not exist\n"},
	} {
		out, errs, code := harness.RunWith(t, append(slices.Clone(env), tt.variable), home, "", tt.args...)
		if code != tt.code || !strings.Contains(out+errs, tt.want) || strings.Contains(out+errs, "secret") {
			t.Errorf(`%s: got exit code %d, stdout %q, stderr %q; want exit code %d, out+errs with %q, out+errs without "secret"`, tt.name, code, out, errs, tt.code, tt.want)
		}
	}
	registry := append(slices.Clone(env), "CODEX_EXEC_SERVER_NOISE_REGISTRY_URL=https://u:secret@r.invalid", "CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID=e", "CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=secret")
	out, errs, code := harness.RunWith(t, registry, home, "", "environments", "check")
	if code != 1 || !strings.Contains(out, "remote  FAILED  https://r.invalid (e) (CODEX_EXEC_SERVER_NOISE_REGISTRY_URL): environment registry request failed: error sending request for url (https://u:xxxxx@r.invalid/cloud/environment/e/connect): ") || strings.Contains(out+errs, "secret") {
		t.Errorf("a registry: %d, %q, %q", code, out, errs)
	}
}

// TestEnvironmentVariablesAndIDs: --env names an environment, or sets a variable in
// the commands that document it. It is never ignored.
func TestEnvironmentVariablesAndIDs(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	for _, command := range []string{"run", "exec"} {
		out, errs, code := harness.Run(t, "", "remote", command, "--url", url, "--env", "A=b", "--", "sh", "-c", "echo $A")
		if code != 0 || out != "b\n" {
			t.Errorf("%s: got exit code %d, stdout %q, stderr %q; want exit code 0, stdout %q", command, code, out, errs, "b\n")
		}
	}
	for _, args := range [][]string{
		{"--env", "A=b", "run", "--url", url, "--", "true"},
		{"ls", "--url", url, "--env", "A=b", "/"},
		{"info", "--url", url, "--env", "A=b"},
		{"run", "--url", url, "--env", "nosuch", "--", "true"},
		{"--url", url, "run", "--env", "nosuch", "--", "true"},
	} {
		if _, errs, code := harness.Run(t, "", append([]string{"remote"}, args...)...); code != 2 || !strings.Contains(errs, "--env") && !strings.Contains(errs, "there is no environment `nosuch`") {
			t.Errorf("%v: got exit code %d, stderr %q; want exit code 2, stderr with \"--env\" or with \"there is no environment `nosuch`\"", args, code, errs)
		}
	}
}
