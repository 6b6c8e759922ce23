package cli

import (
	"bytes"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// TestWrongUse tries invalid command lines that people may type. None of them may make a connection or
// start a program. TestNumericOptions tries each number, and TestWrongUsageExitsWith2 each command.
func TestWrongUse(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	for _, tt := range []struct{ args, want string }{
		{"nope", `codex has no command "nope"; see codex --help`},
		{"remot", `codex has no command "remot"; did you mean remote? see codex --help`},
		{"rendezvous token crate", `codex rendezvous token has no command "crate"; did you mean create? see codex rendezvous token --help`},
		{"help nope", `codex has no command "nope"; see codex --help`},
		{"help remote nope", `codex remote has no command "nope"; see codex remote --help`},
		{"remote help watsh", `codex remote has no command "watsh"; did you mean watch? see codex remote --help`},
		{"help run", `codex has no command "run"; did you mean codex remote run? see codex --help`},
		{"ps", `codex has no command "ps"; did you mean codex remote ps? see codex --help`},
		{"remote ssh", `codex remote has no command "ssh"; did you mean codex remote shell? see codex remote --help`},
		{"remote port-forward 80", `codex remote has no command "port-forward"; did you mean codex remote forward? see codex remote --help`},
		{"remote run -v /src:/src -- x", `-v /src:/src: -v is --verbose; the server's own files are used; codex remote sync copies a directory there, and --writable-root lets a sandboxed command write to one; see codex remote run --help`},
		{"remote kill -11 x", `-11 is no signal that can be sent: give one of -1, -2, -3, -9 and -15, or a name`},
		{"remote kill -99 x", `-99 is no signal that can be sent: give one of -1, -2, -3, -9 and -15, or a name`},
		{"remote kill -19 x", `several signals exclude each other: give one of them`},
		{"remote kill -9 -TERM x", `several signals exclude each other: give one of them`},
		{"remote run --no-stdin --tty -- x", `--no-stdin and --tty exclude each other: a terminal is an input`},
		{"remote run -d --retain-bytes 1Q -- x", `invalid value "1Q" for flag -retain-bytes: expected a size such as 8M; see codex remote run --help`},
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
		{"exec-servr", `codex has no command "exec-servr"; did you mean exec-server? see codex --help`},
		{"exec-server --lisen x", `unknown flag --lisen; did you mean --listen? see codex exec-server --help`},
		{"exec-server stray", `exec-server takes no arguments but forward and token, got "stray"; see codex exec-server --help`},
		{"exec-server --log-level loud", `--log-level (or CODEX_LOG) must be debug, info, warn or error, not "loud"`},
		{"exec-server --ws-auth=", `--ws-auth must not be empty; give a value or leave the flag out`},
		{"exec-server --sandbox-backend chroot", `--sandbox-backend "chroot": expected one of auto, namespaces, bwrap, broker, landlock`},
		{"exec-server --listen wss://127.0.0.1:0", `--listen wss://127.0.0.1:0 needs --tls-cert and --tls-key`},
		{"exec-server --listen wss://127.0.0.1:0 --tls-cert c", `--tls-cert and --tls-key must be given together`},
		{"exec-server --listen wss://127.0.0.1:0 --tls-client-ca c", `--tls-client-ca needs --tls-cert and --tls-key`},
		{"exec-server --listen ws://127.0.0.1:0 --tls-cert c --tls-key k", `--tls-cert is for --listen wss://IP:PORT`},
		{"exec-server token create", `--role is missing: give read, run or admin`},
		{"exec-server token create --role bad", `--role "bad": expected read, run or admin`},
		{"exec-server token create --role run --limit-memory 10x", `invalid value "10x" for flag -limit-memory: expected a number of bytes, or a number with K, M, G or T, such as 512M; see codex exec-server token create --help`},
		{"completion tcsh", `completion needs the name of a shell: bash, zsh or fish, not "tcsh"`},
		{"doctor me", `doctor takes no arguments, got "me"`},
		{"remote run", `run needs a command: codex remote run -- COMMAND [ARGUMENT...]`},
		{"remote run --url http://x -- true", `--url http://x: expected ws://HOST:PORT, wss://HOST:PORT or unix:///PATH; did you mean ws://x?`},
		{"remote run -L 99999 -- true", `forward a port: "99999" is not PORT, PORT:PORT, PORT:HOST:PORT or ADDRESS:PORT:HOST:PORT, with ports up to 65535`},
		{"remote run --memory 10x -- true", `invalid value "10x" for flag -memory: expected a number of bytes, or a number with K, M, G or T, such as 512M; see codex remote run --help`},
		{"remote run --cpus zero -- true", `invalid value "zero" for flag -cpus: expected a number above 0; see codex remote run --help`},
		{"remote run --detach --name a/b -- true", `--name "a/b": a handle has 1 to 64 letters, digits, dots, hyphens and underscores, and begins with a letter or digit`},
		{"remote run --name x -- true", `--name is for --detach`},
		{"remote run -qv -- true", `--quiet and --verbose exclude each other: give one of them`},
		{"remote run --sandbox read-only --save p.toml -- true", `--save needs --ask-network: it saves the answers to these questions`},
		{"remote run --env a --env b -- true", `--env: a and b cannot both be the environment; to set a variable write NAME=VALUE`},
		{"remote forward -W nohost", `-W: "nohost" is not HOST:PORT, with a port up to 65535, or the path of a socket`},
		{"remote forward -D 1:2:3", `-D: "1:2:3" is not PORT or ADDRESS:PORT, with a port up to 65535`},
		{"remote kill --signal FOO x", `--signal must be INT, TERM, KILL, HUP, QUIT, USR1 or USR2, not "FOO"`},
		{"remote cp a b", `cp copies between this machine and the server: either the target or the sources begin with a colon`},
		{"remote mv a", `mv needs a source and a target: codex remote mv OLD NEW`},
		{"remote sync a b", `sync is between this machine and the server: either the source or the target begins with a colon`},
		{"remote sync --watch --dry-run a :b", `--watch and --dry-run exclude each other: a dry run ends after one look`},
		{"remote shell", `shell needs a terminal as its input; to run a script use codex remote run -- sh < FILE`},
		{"remote exec", `exec needs a command: codex remote exec -- COMMAND [ARGUMENT...]`},
		{"remote exec --shell", `--shell needs a terminal as its input; to run a script use codex remote exec -- sh FILE`},
		{"remote exec --shell -- true", `--shell takes no command, got "true"`},
		{"remote exec --shell --json", `--shell and --json exclude each other`},
		{"remote exec --yes --no-input -- true", `--yes and --no-input exclude each other: one retries without asking, the other does not retry`},
		{"remote exec --yes --ask never -- true", `--yes and --ask never exclude each other: one retries without asking, the other does not retry`},
		{"remote exec --no-input --ask always -- true", `--no-input and --ask always exclude each other`},
		{"remote exec --ask sometimes -- true", `--ask must be never, on-failure or always, not "sometimes"`},
	} {
		if code, out, errs := runMain(tt.args); code != cmdutil.ExitUsage || out != "" || errs != "error: "+tt.want+"\n" {
			t.Errorf("codex %s: %d %q\ngot  %s\nwant error: %s", tt.args, code, out, errs, tt.want)
		}
	}
}

// TestHabits types what users of other programs type. The error says what to type here.
func TestHabits(t *testing.T) {
	t.Setenv("CODEX_HOME", t.TempDir())
	for _, tt := range []struct{ after, words, want string }{
		{"", "-e=A=b -e --env", "codex remote run -e NAME=VALUE"},
		{"", "context", "codex environments use?"},
		{"", "kill exec logs", "did you mean codex remote "},
		{"", "ssh scp rsync inspect", "did you mean codex remote "},
		{"environments", "ls ps", "codex environments list?"},
		{"environments", "switch set default", "codex environments use?"},
		{"environments", "test ping", "codex environments check?"},
		{"remote", "scp copy", "codex remote cp?"},
		{"remote", "rsync", "codex remote sync?"},
		{"remote", "tunnel", "codex remote forward?"},
		{"remote", "inspect list jobs", "codex remote ps"},
		{"remote", "dir", "codex remote ls?"},
		{"remote", "remove", "codex remote rm?"},
		{"remote", "rename", "codex remote mv?"},
		{"remote", "tail", "codex remote logs --tail 10?"},
		{"remote", "start restart", "codex remote run --detach?"},
		{"remote", "-e -e=box", "did you mean --env ID?"},
		{"remote run", "--rm", "leave it out: nothing is left of a command"},
		{"remote run", "-p -p=80:80 -itp --publish", "did you mean -L, or --forward?"},
		{"remote run", "--volume=/a:/b --mount", "codex remote sync copies"},
		{"remote run", "-u --user --user=root", "the user of the server"},
		{"remote run", "--workdir --workdir=/", "did you mean --cwd?"},
		{"remote run", "--env-file", "set each variable by -e NAME=VALUE"},
		{"remote run", "--restart --restart=always", "is not started again"},
		{"remote run", "--entrypoint", "the command stands behind --"},
		{"remote run", "--privileged --cap-add", "without --sandbox"},
		{"remote exec", "--workdir", "did you mean --cwd?"},
		{"remote exec", "-u --user", "the user of the server"},
		{"remote exec", "-d --detach", "codex remote run --detach?"},
		{"remote sync", "-z -avz --compress", "sync does not compress;"},
		{"remote sync", "-P -avP --progress --partial", "progress is shown;"},
		{"remote cp", "-a --archive", "did you mean -rp?"},
		{"remote cp", "-f -rf --force", "existing files are replaced;"},
		{"remote mv", "-f --force", "existing files are replaced;"},
		{"remote ls", "-1", "one a line;"},
		{"remote ls", "-t -lt -R -r -S -d", "codex remote run -- ls?"},
		{"remote kill", "-l", "signals are INT, TERM"},
		{"remote stop", "-s --signal", "codex remote kill --signal?"},
		{"remote ps", "--watch -w", "codex remote top?"},
		{"remote ps", "-o --format=json --output", "did you mean --json?"},
		{"remote ps", "-e -A", "did you mean --all?"},
		{"remote top", "-n -b --once", "codex remote stats?"},
		{"remote top", "-d --delay", "did you mean --interval?"},
		{"remote forward", "-L --local", "codex remote forward 3000:8080;"},
		{"remote forward", "-N -f -fN", "forward runs no command;"},
		{"remote shell", "-c", "codex remote run -- sh -c?"},
	} {
		for word := range strings.FieldsSeq(tt.words) {
			args := tt.after + " " + word
			if code, out, errs := runMain(args); code != cmdutil.ExitUsage || out != "" || !strings.Contains(errs, tt.want) || strings.Count(errs, "\n") != 1 {
				t.Errorf("codex %s: got code %d, stdout %q and %q, want code %d and one line with %q", args, code, out, errs, cmdutil.ExitUsage, tt.want)
			}
		}
	}
}

// TestRefusedUse: a valid command line that cannot be carried out on this machine exits with 1 and names the remedy.
func TestRefusedUse(t *testing.T) {
	home := t.TempDir()
	t.Setenv("CODEX_HOME", home)
	const listenForms = "\nhint: --listen takes ws://IP:PORT or wss://IP:PORT (port 0: any free one), unix:///PATH or stdio"
	for _, tt := range []struct{ args, want string }{
		{"exec-server --listen http://x", "unsupported --listen URL `http://x`; expected `ws://IP:PORT` or `stdio`" + listenForms},
		{"exec-server --listen tcp://127.0.0.1:0", "unsupported --listen URL `tcp://127.0.0.1:0`; expected `ws://IP:PORT` or `stdio`" + listenForms},
		{"exec-server --listen ws://127.0.0.1", "invalid websocket --listen URL `ws://127.0.0.1`; expected `ws://IP:PORT`" + listenForms},
		{"exec-server --listen ws://127.0.0.1:99999", "invalid websocket --listen URL `ws://127.0.0.1:99999`; expected `ws://IP:PORT`" + listenForms},
		{"exec-server --listen ws://localhost:0", "invalid websocket --listen URL `ws://localhost:0`; expected `ws://IP:PORT`\nhint: --listen takes an address, not a name: ws://127.0.0.1:0"},
		{"exec-server --listen ws://box.example:8765", "invalid websocket --listen URL `ws://box.example:8765`; expected `ws://IP:PORT`\nhint: --listen takes an address of this machine, not a name; ip address shows them"},
		{"exec-server --listen ws://0.0.0.0:0", "--listen ws://0.0.0.0:0 is not a loopback address: anybody who can connect to it could run commands as this user; add --ws-auth, or --allow-unauthenticated-bind if that is what you want"},
		{"exec-server --ws-auth capability-token", "--ws-auth capability-token needs a token; add --ws-token-file FILE, --ws-token-sha256 HEX or --ws-tokens FILE"},
		{"exec-server token create --role run --cwd /nosuch", "--cwd: lstat /nosuch: no such file or directory"},
		{"exec-server token revoke nosuch", "token \"nosuch\": the token does not exist\nhint: codex exec-server token list shows the tokens with their ids"},
		{"rendezvous token revoke nosuch", "token \"nosuch\": the token does not exist\nhint: codex rendezvous token list shows the tokens with their ids"},
		{"sandbox --profile p.json -- true", "--profile p.json: " + home + "/p.json.config.toml does not exist; to use a permission profile in a file, give --profile-file FILE"},
	} {
		if code, out, errs := runMain(tt.args); code != 1 || out != "" || errs != "Error: "+tt.want+"\n" {
			t.Errorf("codex %s: %d %q\ngot  %s\nwant Error: %s", tt.args, code, out, errs, tt.want)
		}
	}
}

// runMain runs codex without input. The words of args are separated by blanks.
func runMain(args string) (code int, out, errs string) {
	var stdout, stderr bytes.Buffer
	code = Main(append([]string{"codex"}, strings.Fields(args)...), strings.NewReader(""), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}
