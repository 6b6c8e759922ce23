package rendezvous

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

// TestOptionsFromAFile: the service takes its options from a file, and a variable takes
// precedence over the file.
func TestOptionsFromAFile(t *testing.T) {
	run := runWithFile(t)
	const file = "listen = '127.0.0.1:0'\nallow-plaintext-bind = true\nnats = 'nats://file.test'\nnats-replicas = 3\n"
	text, err := run(file, "--print-config")
	if err != nil || !strings.Contains(text, `nats = "nats://file.test" # `) || !strings.Contains(text, "allow-plaintext-bind = true # ") {
		t.Errorf("got error %v, text:\n%s\nwant no error, text with %q, text with \"allow-plaintext-bind = true # \"", err, text, `nats = "nats://file.test" # `)
	}
	if text, err = run(file, "--state", "/s", "--print-config"); err != nil || strings.Contains(text, "file.test") {
		t.Errorf("got error %v, text:\n%s\nwant no error, text without \"file.test\"", err, text)
	}
	t.Setenv(natsVariable, "nats://user:secret@variable.test")
	if text, err = run(file, "--print-config"); err != nil || strings.Contains(text, "file.test") || strings.Contains(text, "secret") ||
		!strings.Contains(text, "# nats is set by "+natsVariable) {
		t.Errorf("got error %v, text:\n%s\nwant no error, text without \"file.test\", text without \"secret\", text with %q", err, text, "# nats is set by "+natsVariable)
	}
	t.Setenv(natsVariable, "")
	_, err = run("\nnats-replicas = 3", "--check-config")
	if advice := cmdutil.AdviceOn(err); !strings.Contains(advice, "options.toml:2") {
		t.Errorf(`got error %v, advice %q; want advice with "options.toml:2"`, err, advice)
	}
}

// runWithFile returns a function that runs codex rendezvous with a file of options and returns its output.
func runWithFile(t *testing.T) func(file string, args ...string) (string, error) {
	t.Setenv("CODEX_HOME", t.TempDir())
	path := filepath.Join(t.TempDir(), "options.toml")
	return func(file string, args ...string) (string, error) {
		t.Helper()
		if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		s := cmdutil.NewStreams(strings.NewReader(""), &out, &out)
		app := &cli.App{Name: "codex", Writer: &out, Commands: []*cli.Command{Command(s)}, ExitErrHandler: func(*cli.Context, error) {}}
		err := app.Run(append([]string{"codex", "rendezvous", "--config-file", path}, args...))
		return out.String(), err
	}
}

func TestCheckConfigFindsWhatKeepsAServiceFromStarting(t *testing.T) {
	run := runWithFile(t)
	for file, want := range map[string]string{
		"listen = '0.0.0.0:0'":                                "--allow-plaintext-bind",
		"listen = 'nowhere'":                                  "--listen nowhere",
		"metrics-listen = 'nowhere'":                          "--metrics-listen",
		"public-url = 'ftp://x.test'":                         "--public-url",
		"tls-cert = '/nonexistent'\ntls-key = '/nonexistent'": "--tls-cert",
		"nats = 'nats://x.test'\nnats-ca = '/nonexistent'":    "--nats-ca",
		"nats = 'nats://x.test'\nstate = '/s'":                "exclude each other",
	} {
		if text, err := run(file, "--check-config"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v and %q, want an error with %q", file, err, text, want)
		}
	}
	// The packaged unit sets the variable, and operators add --nats to it.
	t.Setenv(stateVariable, "/nonexistent/state.json")
	if text, err := run("nats = 'nats://x.test'", "--check-config"); err != nil {
		t.Errorf("with a variable for --state and with --nats: got error %v and %q, want valid options", err, text)
	}
}
