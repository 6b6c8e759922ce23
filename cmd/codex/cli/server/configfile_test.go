package server

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// server runs codex exec-server with a file of options and returns its output.
func server(t *testing.T, file string, args ...string) (string, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "options.toml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	return serverAt(path, args...)
}

func serverAt(path string, args ...string) (string, error) {
	return serverWith(nil, append([]string{"--config-file", path}, args...)...)
}

// serverWith runs codex exec-server with arguments before and after the command.
func serverWith(before []string, args ...string) (string, error) {
	var out strings.Builder
	s := cmdutil.NewStreams(strings.NewReader(""), &out, &out)
	app := &cli.App{
		Name: "codex", Writer: &out, ErrWriter: &out, Flags: cmdutil.RootFlags(), Commands: []*cli.Command{Command(s)},
		ExitErrHandler: func(*cli.Context, error) {}, OnUsageError: cmdutil.OnUsageError, DisableSliceFlagSeparator: true,
	}
	err := app.Run(slices.Concat([]string{"codex"}, before, []string{"exec-server"}, args))
	return out.String(), err
}

func TestOptionsFromAFile(t *testing.T) {
	t.Setenv("CODEX_LOG", "warn")
	const file = `# all types
listen = "ws://127.0.0.1:1"
session-ttl = "90s"
max-processes = 64
max-handles = 5
ws-max-clock-skew-seconds = 7
sandbox-stricter = true
log-level = "debug"
config = ["a=1", "b=\"x,y\""]
`
	text, err := server(t, file, "--max-handles", "6", "--print-config")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`listen = ["ws://127.0.0.1:1"] # `, `session-ttl = "1m30s" # `, "max-processes = 64 # ", "max-handles = 6 # command line\n",
		"ws-max-clock-skew-seconds = 7 # ", "sandbox-stricter = true # ", `log-level = "warn" # CODEX_LOG` + "\n",
		`config = ["a=1", "b=\"x,y\""] # `, "options.toml:4\n", "# max-connections = 1024\n", "# tls-cert is not set\n", "# no-cgroups = false\n",
	} {
		if !strings.Contains("\n"+text, "\n"+want) && !strings.Contains(text, want) {
			t.Errorf("%s is missing in\n%s", want, text)
		}
	}
	// The printed file has the same effect.
	again, err := server(t, text, "--print-config")
	if err != nil || options(again) != options(text) {
		t.Errorf("%v\n%s\nwant\n%s", err, again, text)
	}
	if text, err := server(t, "max-handles = 6", "--check-config"); err != nil || !strings.Contains(text, "are valid") {
		t.Errorf("got error %v, text:\n%s\nwant no error, text with \"are valid\"", err, text)
	}
}

// options returns the output of --print-config without comments.
func options(text string) string {
	var b strings.Builder
	for line := range strings.Lines(text) {
		option, _, _ := strings.Cut(line, " # ")
		if !strings.HasPrefix(option, "#") {
			b.WriteString(option + "\n")
		}
	}
	return b.String()
}

func TestWrongOptionsInAFile(t *testing.T) {
	for file, want := range map[string]string{
		"\nmax-proceses = 1":                        `:2: unknown key "max-proceses"; did you mean max-processes?`,
		"x = 1":                                     `:1: unknown key "x"; allowed are the options of codex exec-server: allow-unauthenticated-bind, allow-unconfined-readers, audit-commands, `,
		"config-file = 'x'":                         `:1: unknown key "config-file"; did you mean config?`,
		"help = true":                               `:1: unknown key "help"`,
		"max-processes = '1'":                       `:1: max-processes: it must be a number without a fraction`,
		"max-processes = 1.5":                       `:1: max-processes: it must be a number`,
		"max-processes = 99999999999999999999":      `:1:`,
		"ws-max-clock-skew-seconds = -1":            `:1: ws-max-clock-skew-seconds: "-1": must be at least 0`,
		"no-cgroups = 'yes'":                        `:1: no-cgroups: it must be true or false`,
		"session-ttl = 60":                          `:1: session-ttl: it must be a duration in quotes, such as "90s"`,
		"session-ttl = 'soon'":                      `:1: session-ttl: "soon": expected a duration such as`,
		"config = 5":                                `:1: config: it must be a string or an array of strings`,
		"config = [1]":                              `:1: config: it must be a string or an array of strings`,
		"config = 'other.toml'":                     `:1: config: it must be KEY=VALUE; a file with options cannot name another one`,
		"config = ['a=1', 'other.toml']":            `:1: config: it must be KEY=VALUE; a file with options cannot name another one`,
		"listen = 5":                                `:1: listen: it must be a string or an array of strings`,
		"listen = ['stdio', 'ws://127.0.0.1:0']":    `--listen stdio cannot be used with another --listen`,
		"listen = ['ws://127.0.0.1:0', 'x://']":     "unsupported --listen URL `x://`",
		"[server]\nlisten = 'x'":                    `:1:2: ` + "`server` is a table",
		"listen = 'a'\nlisten = 'b'":                `:2:1: `,
		"max-processes = 0":                         `:1: max-processes: "0": must be at least 1`,
		"remote = 'https://x.test'\nlisten = 'ws:'": `cannot be used with`,
	} {
		text, err := server(t, file, "--check-config")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v %s, want %s", file, err, text, want)
		}
	}
	_, err := server(t, "\nsandbox-backend = 'x'", "--check-config")
	if advice := cmdutil.AdviceOn(err); !strings.Contains(advice, "--sandbox-backend comes from ") || !strings.Contains(advice, "options.toml:2") {
		t.Errorf(`got %q; want a text with "--sandbox-backend comes from ", a text with "options.toml:2"`, advice)
	}
}

// TestLimitsInAFile: the limits of commands are options like any others.
func TestLimitsInAFile(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const file = "limit-memory = '2G'\nlimit-cpus = '1.5'\nlimit-time = '1h'\nlimit-open-files = '64'\nlimit-require = true"
	text, err := server(t, file, "--limit-time", "2h", "--print-config")
	const want = "limit-memory = \"2G\" # \nlimit-cpus = \"1.5\" # \nlimit-time = \"2h\" # \nlimit-open-files = \"64\" # \nlimit-require = true # \n"
	if err != nil || options(text) != options(want) {
		t.Errorf("got error %v, text:\n%s\nwant no error, options(text) options(want)", err, text)
	}
	if text, err := server(t, file, "--check-config"); err != nil || !strings.Contains(text, "are valid") {
		t.Errorf("got error %v, text:\n%s\nwant no error, text with \"are valid\"", err, text)
	}
	for line, option := range map[string]string{
		"limit-memory = '2X'": "limit-memory", "limit-cpus = 'all'": "limit-cpus", "limit-time = 'soon'": "limit-time", "limit-pids = '-1'": "limit-pids",
	} {
		_, err := server(t, "\n"+line, "--check-config")
		if err == nil || !strings.Contains(err.Error(), "options.toml:2: "+option+": ") {
			t.Errorf("%s: got %v, want an error that names the line and %s", line, err, option)
		}
	}
	if _, err := server(t, "limit-pids = 200", "--check-config"); err == nil || !strings.Contains(err.Error(), "limit-pids: it must be a string") {
		t.Errorf("a number: %v", err)
	}
}

// TestOptionsFileIsRefused: the server refuses a file that is missing or that other users can change.
func TestOptionsFileIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "options.toml")
	if _, err := serverAt(path, "--check-config"); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := serverAt("", "--check-config"); err == nil || !strings.Contains(err.Error(), "--config-file is empty") {
		t.Errorf("no file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(path, 0o620); err != nil {
		t.Fatal(err)
	}
	if _, err := serverAt(path, "--check-config"); err == nil || !strings.Contains(err.Error(), "chmod go-w") {
		t.Errorf("a file that the group can change: %v", err)
	}
}

// TestConfigNamesTheFile: --config FILE means --config-file FILE, and --config KEY=VALUE means
// the same as in Codex CLI, which does not accept a value without =.
func TestConfigNamesTheFile(t *testing.T) {
	dir := t.TempDir()
	file, other, odd := filepath.Join(dir, "options.toml"), filepath.Join(dir, "other.toml"), filepath.Join(dir, "a=b")
	for _, path := range []string{file, other, odd} {
		if err := os.WriteFile(path, []byte("max-handles = 7\nconfig = 'x=2'"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const both = "config = [\"x=2\"]\nmax-handles = 7\n"
	for _, tt := range []struct {
		args []string
		want string // the output of --print-config, without comments
	}{
		{[]string{"--config", file}, both},
		{[]string{"--config=" + file}, both}, // this = belongs to the option
		{[]string{"-c", file}, both},
		{[]string{"--config", file, "--config", file, "--config-file", file}, both},
		{[]string{"--config", "x=3", "--config", file}, "config = [\"x=3\"]\nmax-handles = 7\n"},
		{[]string{"--config", "x=3"}, "config = [\"x=3\"]\n"},
		{[]string{"--config-file", odd}, both},
		{[]string{"--config", odd}, "config = [\"" + odd + "\"]\n"},
		{[]string{"--config", file, "--max-handles", "8"}, "config = [\"x=2\"]\nmax-handles = 8\n"},
	} {
		text, err := serverWith(nil, append(tt.args, "--print-config")...)
		if err != nil || options(text) != tt.want {
			t.Errorf("%q: %v\n%s\nwant\n%s", tt.args, err, options(text), tt.want)
		}
	}
}

// TestConfigNamesNoFile: naming two files, or no file, is an error. Naming a file before the
// command is an error, too, because the file would be ignored there.
func TestConfigNamesNoFile(t *testing.T) {
	file, other := filepath.Join(t.TempDir(), "options.toml"), filepath.Join(t.TempDir(), "other.toml")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		before, args []string
		want         string
	}{
		{nil, []string{"--config", file, "--config", other}, "--config: another file was given already; give one"},
		{nil, []string{"--config-file", file, "--config", other}, "--config: another file was given already; give one"},
		{nil, []string{"--config-file", file, "--config-file", other}, "another file was given already; give one"},
		{nil, []string{"--config", ""}, "--config is empty; leave it out or name a file"},
		{nil, []string{"--config", other}, "read the options of --config: open " + other},
		{[]string{"--config", file}, nil, "--config before exec-server must be KEY=VALUE"},
		{[]string{"-c", file}, nil, "write exec-server --config FILE"},
	} {
		_, err := serverWith(tt.before, append(tt.args, "--check-config")...)
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q %q: %v, want %s", tt.before, tt.args, err, tt.want)
		}
	}
	_, err := serverWith(nil, "--config", other)
	if advice := cmdutil.AdviceOn(err); !strings.Contains(advice, "a value of config.toml is KEY=VALUE") {
		t.Errorf("a missing file: %q", advice)
	}
}

// TestOptionsOfAnotherUseAreLeftOut: --listen on the command line does not conflict with
// the file's --remote, and vice versa.
func TestOptionsOfAnotherUseAreLeftOut(t *testing.T) {
	registering := "remote = 'https://x.test'\nenvironment-id = 'box'\nmax-handles = 3"
	if text, err := server(t, registering, "--listen", "ws://127.0.0.1:0", "--print-config"); err != nil ||
		options(text) != options("listen = [\"ws://127.0.0.1:0\"] # \nmax-handles = 3 # \n") {
		t.Errorf("got error %v, text:\n%s\nwant no error", err, text)
	}
	listening := "listen = 'wss://127.0.0.1:1'\ntls-cert = '/c'\ntls-key = '/k'\nws-auth = 'capability-token'\nmax-handles = 3"
	text, err := server(t, listening, "--remote", "https://x.test", "--environment-id", "box", "--print-config")
	if err != nil || strings.Contains(options(text), "listen") || strings.Contains(options(text), "tls") || strings.Contains(options(text), "ws-") ||
		!strings.Contains(options(text), "max-handles = 3\n") {
		t.Errorf("got error %v, text:\n%s\nwant no error, options(text) without \"listen\", options(text) without \"tls\", options(text) without \"ws-\", options(text) with %q", err, text, "max-handles = 3\n")
	}
	several := "listen = ['ws://127.0.0.1:1', 'unix:///s']\nmax-handles = 3"
	if text, err := server(t, several, "--print-config"); err != nil || !strings.Contains(text, `listen = ["ws://127.0.0.1:1", "unix:///s"] # `) {
		t.Errorf("got error %v, text:\n%s\nwant no error, text with %q", err, text, `listen = ["ws://127.0.0.1:1", "unix:///s"] # `)
	}
	if text, err := server(t, several, "--listen", "ws://127.0.0.1:2", "--print-config"); err != nil || strings.Contains(options(text), "unix") {
		t.Errorf("the command line does not replace the list: %v\n%s", err, text)
	}
	text, err = server(t, listening, "--listen", "unix:///s", "--listen", "wss://127.0.0.1:2", "--print-config")
	if err != nil || !strings.Contains(options(text), `tls-cert = "/c"`) {
		t.Errorf("got error %v, text:\n%s\nwant no error, options(text) with %q", err, text, `tls-cert = "/c"`)
	}
}

// --check-config finds what would keep a server from starting, and leaves nothing behind.
func TestCheckConfigFindsWhatKeepsAServerFromStarting(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	for _, name := range []string{"CODEX_RENDEZVOUS_TOKEN", "CODEX_API_KEY", "CODEX_ACCESS_TOKEN"} {
		t.Setenv(name, "")
	}
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for _, path := range []string{cert, key} {
		if err := os.WriteFile(path, []byte("no PEM\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, row := range []struct{ name, file, want string }{
		{"a missing certificate", "listen = 'wss://127.0.0.1:0'\ntls-cert = '" + dir + "/none'\ntls-key = '" + key + "'", "--tls-cert"},
		{"a file without a certificate", "listen = 'wss://127.0.0.1:0'\ntls-cert = '" + cert + "'\ntls-key = '" + key + "'", "--tls-cert"},
		{"an audit log in a missing directory", "audit-log = '" + dir + "/none/audit.log'", "--audit-log"},
		{"an audit log that is a directory", "audit-log = '" + dir + "'", "--audit-log"},
		{"an audit key in a missing directory", "audit-log = '" + dir + "/audit.log'\naudit-key = '" + dir + "/none/key'", "--audit-key"},
		{"an address for metrics", "metrics-listen = 'not-an-address'", "--metrics-listen"},
		{"an address that this machine does not have", "listen = 'ws://192.0.2.1:8765'\nws-auth = 'capability-token'\nws-token-sha256 = '" + strings.Repeat("0", 64) + "'", "192.0.2.1:8765"},
		{"no authentication beyond loopback", "listen = 'ws://0.0.0.0:0'", "--ws-auth"},
		{"a socket in a missing directory", "listen = 'unix://" + dir + "/none/socket'", "--listen unix://"},
		{"a registration without a token", "remote = 'https://meet.example'\nenvironment-id = 'box'", "CODEX_API_KEY"},
		{"an egress policy that is missing", "egress-policy = '" + dir + "/none'", "--egress-policy"},
	} {
		text, err := server(t, row.file, "--check-config")
		if err == nil || !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s: got error %v and %q, want an error with %q", row.name, err, text, row.want)
		}
	}
	text, err := server(t, "audit-log = '"+dir+"/audit.log'\naudit-key = '"+dir+"/new-key'\nmetrics-listen = '127.0.0.1:0'", "--check-config")
	if err != nil || !strings.Contains(text, "are valid") {
		t.Errorf("got error %v and %q, want valid options", err, text)
	}
	if left, _ := filepath.Glob(dir + "/*"); len(left) != 2 {
		t.Errorf("got files %q, want only the two of the certificate", left)
	}
}
