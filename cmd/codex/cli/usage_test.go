package cli

import (
	"bytes"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

func TestWrongUse(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	for _, tt := range []struct{ args, want string }{
		{"nope", `codex has no command "nope"; see codex --help`},
		{"remot", `codex has no command "remot"; did you mean remote? see codex --help`},
		{"rendezvous token crate", `codex rendezvous token has no command "crate"; did you mean create? see codex rendezvous token --help`},
		{"help nope", `codex has no command "nope"; see codex --help`},
		{"help remote nope", `codex remote has no command "nope"; see codex remote --help`},
		{"remote help watsh", `codex remote has no command "watsh"; did you mean watch? see codex remote --help`},
		{"help run", `codex has no command "run"; see codex --help`},
		{"man remot", `codex has no command "remot"; did you mean remote? see codex --help`},
		{"--remot", `unknown flag --remot; see codex --help`},
		{"rendezvous --lisen 1", `unknown flag --lisen; did you mean --listen? see codex rendezvous --help`},
		{"rendezvous token create --env box", `unknown flag --env; did you mean --environment? see codex rendezvous token create --help`},
		{"completion zsh fish", `completion takes one shell, got "fish" too`},
		{"login --with-apikey", `unknown flag --with-apikey; did you mean --with-api-key? see codex login --help`},
		{"remote cat y --ur x", `unknown flag --ur; did you mean --url? see codex remote cat --help`},
		{"remote ls -lx", `unknown flag -lx; see codex remote ls --help`},
		{"remote --environment x ls", `unknown flag --environment; did you mean --env? see codex remote --help`},
		{"remote cat -x y", `unknown flag -x; see codex remote cat --help`},
		{"rendezvous token list --tokens", `flag needs an argument: -tokens; see codex rendezvous token list --help`},
		{"rendezvous token create --expires 30d", `invalid value "30d" for flag -expires: expected a duration such as 90s, 30m or 720h; see codex rendezvous token create --help`},
		{"rendezvous --nats-replicas x", `invalid value "x" for flag -nats-replicas: expected a whole number such as 8; see codex rendezvous --help`},
		{"rendezvous --nats-replicas 9", `invalid value "9" for flag -nats-replicas: must be at most 5; see codex rendezvous --help`},
		{"rendezvous --state=", `--state is empty; leave it out or give it a value`},
		{"rendezvous --tokens=", `--tokens is empty; leave it out or give it a value`},
		{"rendezvous token list --tokens=", `--tokens is empty; leave it out or give it a value`},
		{"login --device-auth=maybe", `invalid boolean value "maybe" for -device-auth: parse error; see codex login --help`},
	} {
		var out, errs bytes.Buffer
		code := Main(append([]string{"codex"}, strings.Fields(tt.args)...), strings.NewReader(""), &out, &errs)
		if code != cmdutil.ExitUsage || out.Len() > 0 || errs.String() != "error: "+tt.want+"\n" {
			t.Errorf("codex %s: %d %q\ngot  %s\nwant error: %s", tt.args, code, out.String(), errs.String(), tt.want)
		}
	}
}
