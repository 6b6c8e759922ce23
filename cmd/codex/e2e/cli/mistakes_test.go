package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestMistakes types what people get wrong: each error names the object, the reason and a
// way out, and wrong usage exits with 2.
func TestMistakes(t *testing.T) {
	t.Parallel()
	home, env := harness.HomeDirectory(t, nil)
	_, url := harness.Server(t)
	env = append(env, "CODEX_EXEC_SERVER_URL="+url, "EDITOR=touch "+filepath.Join(home, "edited"))
	tokens := filepath.Join(home, "tokens.json")
	for _, tt := range []struct {
		args string
		code int
		errs string // the beginning of stderr
	}{
		{"exec-server token create --tokens " + tokens + " --role bad", 2, `error: --role "bad": there are read, run and admin`},
		{"exec-server token create --tokens " + tokens + " --role run --cwd /nosuch", 1, "Error: --cwd: lstat /nosuch: no such file or directory"},
		{"exec-server token create --tokens " + tokens + " --role run --limit-memory 10x", 2, `error: invalid value "10x" for flag -limit-memory: expected a number of bytes, or a number with K`},
		{"exec-server token create --tokens " + tokens, 2, "error: --role is missing: read, run or admin"},
		{"exec-server token revoke --tokens " + tokens + " nosuch", 1, "Error: token \"nosuch\": there is no such token\ncodex: codex exec-server token list shows"},
		{"rendezvous token revoke --tokens " + tokens + " nosuch", 1, "Error: token \"nosuch\": there is no such token\ncodex: codex rendezvous token list shows"},
		{"exec-server --max-connections many", 2, `error: invalid value "many" for flag -max-connections: expected a whole number such as 8`},
		{"remote run -L 99999 -- true", 2, `error: forward a port: "99999" is not PORT, PORT:PORT, PORT:HOST:PORT or ADDRESS:PORT:HOST:PORT, with ports up to 65535`},
		{"remote forward -W nohost", 2, `error: -W: "nohost" is not HOST:PORT, with a port up to 65535`},
		{"remote forward -D 1:2:3", 2, `error: -D: "1:2:3" is not PORT or ADDRESS:PORT`},
		{"remote run --memory 10x -- true", 2, `error: invalid value "10x" for flag -memory: expected a number of bytes`},
		{"remote run --cpus zero -- true", 2, `error: invalid value "zero" for flag -cpus: expected a number`},
		{"remote run --detach --name a/b -- true", 2, `error: --name "a/b": a handle has 1 to 64 letters`},
		{"remote run --detach --name " + strings.Repeat("a", 65) + " -- true", 2, `error: --name "aaa`},
		{"remote run --name x -- true", 2, "error: --name is for --detach"},
		{"remote kill --signal FOO x", 2, `error: --signal "FOO": there are INT`},
		{"remote logs nosuch", 1, "Error: nosuch: there is no such detached process of yours; codex remote ps lists them"},
		{"remote edit /nosuch/x", 1, "Error: edit /nosuch/x: the directory of the new file: /nosuch: no such file or directory; make it with codex remote mkdir -p"},
		{"remote cat -x /etc/hostname", 2, "error: unknown flag -x; see codex remote cat --help"},
		{"sandbox --profile p.json -- true", 1, "Error: --profile p.json: there is no HOME/p.json.config.toml; a permission profile in a file is given by --profile-file FILE"},
	} {
		out, errs, code := harness.RunWith(t, env, home, "", strings.Fields(tt.args)...)
		if code != tt.code || out != "" || !strings.HasPrefix(errs, tt.errs) {
			t.Errorf("%s: %d %q %q", tt.args, code, out, errs)
		}
	}
	// The file may come later, so the server starts; it says why it admits nobody.
	if _, errs, code := harness.RunWith(t, env, home, "", "exec-server", "--listen", "ws://127.0.0.1:0", "--exit-on-stdin-close",
		"--ws-auth", "capability-token", "--ws-tokens", filepath.Join(home, "missing")); code != 0 || !strings.Contains(errs, "the file of --ws-tokens does not exist") {
		t.Errorf("a file of tokens that is missing: %d %q", code, errs)
	}
	if _, err := os.Stat(filepath.Join(home, "edited")); err == nil {
		t.Error("an editor was started for a file that cannot be written")
	}
}
