package cmdutil

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// habit is a word or an option that users of another program type, and that the program does not have.
type habit struct {
	below string // the command that it was typed after, without the name of the program
	typed string // a subcommand or an option; more are separated by blanks
	hint  string
}

// habits are the hints for users of other programs. Where one of our commands has an option with the same meaning, that
// option has the other name, too: run -w of docker, kill -9, sync -a of rsync.
var habits = []habit{
	{"remote", "ssh", "did you mean codex remote shell?"},
	{"remote", "scp copy", "did you mean codex remote cp?"},
	{"remote", "rsync", "did you mean codex remote sync?"},
	{"remote", "port-forward tunnel", "did you mean codex remote forward?"},
	{"remote", "inspect", "did you mean codex remote ps --json?"},
	{"remote", "list jobs", "did you mean codex remote ps?"},
	{"remote", "dir", "did you mean codex remote ls?"},
	{"remote", "remove", "did you mean codex remote rm?"},
	{"remote", "rename", "did you mean codex remote mv?"},
	{"remote", "tail", "did you mean codex remote logs --tail 10?"},
	{"remote", "start restart", "did you mean codex remote run --detach? A process that has ended cannot be started again"},
	{"environments", "ls ps", "did you mean codex environments list?"},
	{"environments", "switch set default", "did you mean codex environments use?"},
	{"environments", "test ping", "did you mean codex environments check?"},
	{"", "context", "did you mean codex environments use?"},

	{"", "-e --env", "did you mean codex remote run -e NAME=VALUE, or codex remote --env ID?"},
	{"remote", "-e", "did you mean --env ID? A variable of a command is set behind it: codex remote run -e NAME=VALUE"},

	{"remote run", "--rm", "leave it out: nothing is left of a command that has ended, unless it was started with --detach"},
	{"remote run", "-p --publish", "did you mean -L, or --forward? It forwards ports while the command runs"},
	{"remote run", "--volume --mount", copyFiles},
	{"remote run", "-u --user", "a command runs as the user of the server; a server that runs as another user is needed"},
	{"remote run", "--workdir", "did you mean --cwd?"},
	{"remote run", "--env-file", "set each variable by -e NAME=VALUE"},
	{"remote run", "--restart", "a process that has ended is not started again; run a service manager, or a loop"},
	{"remote run", "--entrypoint", "the command stands behind --: codex remote run -- COMMAND"},
	{"remote run", "--privileged --cap-add", "without --sandbox, a command may do all that the user of the server may"},
	{"remote exec", "--workdir", "did you mean --cwd?"},
	{"remote exec", "-u --user", "a command runs as the user of the server; a server that runs as another user is needed"},
	{"remote exec", "-d --detach", "did you mean codex remote run --detach?"},

	{"remote sync", "-z --compress", "leave it out: sync does not compress"},
	{"remote sync", "-P --progress --partial", "leave it out: on a terminal, progress is shown"},
	{"remote cp", "-a --archive", "did you mean -rp? With --owner, owners are preserved, too"},
	{"remote cp", "-f --force", "leave it out: existing files are replaced"},
	{"remote mv", "-f --force", "leave it out: existing files are replaced"},
	{"remote ls", "-1", "leave it out: names are printed one a line"},
	{"remote ls", "-t -R -r -S -d", "did you mean codex remote run -- ls?"},

	{"remote kill", "-l", "signals are INT, TERM, KILL, HUP, QUIT, USR1 and USR2"},
	{"remote stop", "-s --signal", "stop sends TERM; did you mean codex remote kill --signal?"},
	{"remote ps", "--watch -w", "did you mean codex remote top?"},
	{"remote ps", "-o --format --output", "did you mean --json?"},
	{"remote ps", "-e -A", "did you mean --all?"},
	{"remote top", "-n -b --once", "did you mean codex remote stats? It prints one table"},
	{"remote top", "-d --delay", "did you mean --interval?"},
	{"remote forward", "-L --local", "leave it out: ports of this machine are operands, as in codex remote forward 3000:8080"},
	{"remote forward", "-N -f", "leave it out: forward runs no command"},
	{"remote shell", "-c", "did you mean codex remote run -- sh -c?"},
}

// copyFiles is the hint for options that mount directories.
const copyFiles = "the server's own files are used; codex remote sync copies a directory there, and --writable-root lets a sandboxed command write to one"

// hintFor returns the hint for a word or an option that was typed after a command, or "". It ends with a question mark or
// a semicolon, because the name of the help follows.
func hintFor(command, typed string) string {
	_, below, _ := strings.Cut(command, " ") // without the name of the program
	for _, h := range habits {
		if h.below == below && slices.Contains(strings.Fields(h.typed), typed) {
			if strings.HasSuffix(h.hint, "?") {
				return h.hint
			}
			return h.hint + ";"
		}
	}
	return ""
}

// optionHint returns the hint for an unknown option. In joined short options, as -avz, it is about the first letter
// that has one.
func optionHint(command, option string, flags []cli.Flag) string {
	if hint := hintFor(command, option); hint != "" || strings.HasPrefix(option, "--") {
		return hint
	}
	for _, letter := range option[1:] {
		if hint := hintFor(command, "-"+string(letter)); hint != "" && find(flags, string(letter)) == nil {
			return "-" + string(letter) + ": " + hint
		}
	}
	return ""
}

// mountsVolume reports whether docker's option -v with a volume was typed before the command line of a program. Here -v
// is --verbose, and the volume would be run as a program.
func mountsVolume(option, next string) bool {
	return option == "-v" && strings.Contains(next, ":/")
}
