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
		{"help nope", `there is no command "nope"; see codex help`},
		{"help remote nope", `there is no command "remote nope"; see codex help`},
		{"remote help nope", `there is no command "remote nope"; see codex help`},
		{"help run", `there is no command "run"; see codex help`},
		{"--remot", `unknown flag --remot; see codex --help`},
		{"rendezvous --lisen 1", `unknown flag --lisen; did you mean --listen? see codex rendezvous --help`},
		{"rendezvous token create --env box", `unknown flag --env; did you mean --environment? see codex rendezvous token create --help`},
		{"completion zsh fish", `completion takes one shell, got "fish" too`},
		{"login --with-apikey", `unknown flag --with-apikey; did you mean --with-api-key? see codex login --help`},
		{"remote cat -x y", `unknown flag -x; see codex remote cat --help`},
		{"rendezvous token list --tokens", `--tokens needs a value; see codex rendezvous token list --help`},
		{"rendezvous token create --expires 30d", `--expires "30d": expected a duration such as 90s, 30m or 720h; see codex rendezvous token create --help`},
		{"rendezvous --nats-replicas x", `--nats-replicas "x": expected a number such as 8; see codex rendezvous --help`},
		{"rendezvous --state=", `--state is empty; leave it out or give it a value`},
		{"rendezvous --tokens=", `--tokens is empty; leave it out or give it a value`},
		{"rendezvous token list --tokens=", `--tokens is empty; leave it out or give it a value`},
		{"login --device-auth=maybe", `--device-auth "maybe": expected true or false; see codex login --help`},
	} {
		var out, errs bytes.Buffer
		code := Main(append([]string{"codex"}, strings.Fields(tt.args)...), strings.NewReader(""), &out, &errs)
		if code != cmdutil.ExitUsage || out.Len() > 0 || errs.String() != "error: "+tt.want+"\n" {
			t.Errorf("codex %s: %d %q\ngot  %s\nwant error: %s", tt.args, code, out.String(), errs.String(), tt.want)
		}
	}
}
