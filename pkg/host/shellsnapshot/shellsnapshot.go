// Package shellsnapshot stores the state that the start-up files of a login shell have set,
// so that later commands get it without running these files again
// (docs/spec/wire.md §4.9):
//
//	marker := shellsnapshot.NewMarker()
//	// run [shell, "-lc", shellsnapshot.Script(marker)], collect its stdout
//	snapshot, err := shellsnapshot.Parse(stdout, marker)
//	argv = snapshot.Argv(argv)
//	env = append(env, snapshot.Variables()...)
//
// The package itself runs nothing. It supports only bash: dash cannot list its functions, so a
// snapshot of dash would lose them.
package shellsnapshot

import (
	"bytes"
	"crypto/rand"
	"errors"
	"strconv"
	"strings"
)

// Shell is the name of the only shell of which snapshots are made.
const Shell = "bash"

// ErrNone is the error for an output without a complete state.
var ErrNone = errors.New("the shell has not printed its state")

// sections are the parts of the state, in the order in which Script prints them.
var sections = [...]string{"shopt", "functions", "exported", "aliases", "options", "environment", "end"}

// NewMarker returns a text that start-up files do not print.
func NewMarker() string { return "codex-" + rand.Text() }

// Script returns a command line for bash that also reads the interactive start-up file, and prints
// the shell's state. `builtin` is quoted so that no alias replaces it. It is used to call builtins
// that functions may hide.
func Script(marker string) string {
	mark := func(section string) string { return `\builtin printf '\n%s\n' ` + marker + "-" + section + "\n" }
	return `[ -n "$BASH_VERSION" ] || \builtin exit 1
if [ -r ~/.bashrc ]; then . ~/.bashrc; fi </dev/null >/dev/null 2>&1
` + mark("shopt") + `\builtin shopt -p
` + mark("functions") + `\builtin declare -f
` + mark("exported") + `\builtin declare -Fx
` + mark("aliases") + `\builtin alias -p
` + mark("options") + `\builtin set +o
` + mark("environment") + `\builtin command -p env -0
` + mark("end")
}

// Complete reports whether an output contains a complete state. Later output comes from jobs that
// the start-up files left in the background.
func Complete(output []byte, marker string) bool {
	return bytes.Contains(output, []byte("\n"+marker+"-end\n"))
}

// Snapshot is the state of a shell. It does not change.
type Snapshot struct {
	// Environ are the exported variables, as NAME=VALUE, except for those that are specific to one
	// shell process.
	Environ []string

	pieces []string // of the script that restores the rest
}

// Parse reads the state from the output of the shell.
func Parse(output []byte, marker string) (*Snapshot, error) {
	var parts [len(sections)]string
	rest := string(output)
	for i, section := range sections {
		before, after, found := strings.Cut(rest, "\n"+marker+"-"+section+"\n")
		if !found {
			return nil, ErrNone
		}
		if i > 0 {
			parts[i-1] = before
		}
		// The mark of the next section may follow at once.
		rest = "\n" + after
	}
	state := strings.Join([]string{
		shopts(parts[0]), parts[1], parts[2], parts[3], options(parts[4]),
	}, "\n")
	s := &Snapshot{Environ: environ(strings.TrimPrefix(parts[5], "\n"))}
	for n := min(len(state), maxPiece); state != ""; n = min(len(state), maxPiece) {
		s.pieces = append(s.pieces, state[:n])
		state = state[n:]
	}
	if len(s.pieces) > maxPieces {
		return nil, errors.New("the shell's state has more than " + strconv.Itoa(maxPieces*maxPiece) + " bytes")
	}
	return s, nil
}

// shopts returns the commands that set the options of shopt. It omits two options that cannot be
// set.
func shopts(lines string) string {
	var on, off []string
	for line := range strings.Lines(lines) {
		word := strings.Fields(line)
		switch {
		case len(word) != 3 || word[0] != "shopt" || word[2] == "login_shell" || word[2] == "restricted_shell":
		case word[1] == "-s":
			on = append(on, word[2])
		default:
			off = append(off, word[2])
		}
	}
	return command(`\builtin shopt -s `, on) + command(`\builtin shopt -u `, off)
}

func command(name string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	return name + strings.Join(words, " ") + "\n"
}

// options returns the command that sets the options of set. It turns off only options that are on
// in a new shell, because turning off the POSIX mode resets other options in bash 4.
func options(lines string) string {
	set := []string{"+o privileged"}
	for line := range strings.Lines(lines) {
		word := strings.Fields(line)
		if len(word) != 3 || word[0] != "set" {
			continue
		}
		initially := word[2] == "braceexpand" || word[2] == "hashall" || word[2] == "interactive-comments"
		if word[2] != "privileged" && (word[1] == "-o" || initially) {
			set = append(set, word[1]+" "+word[2])
		}
	}
	return command(`\builtin set `, set)
}

// environ returns the variables of a NUL-terminated list.
func environ(list string) (env []string) {
	for entry := range strings.SplitSeq(list, "\x00") {
		switch name, _, found := strings.Cut(entry, "="); {
		case !found, name == "", name == "PWD", name == "OLDPWD", name == "SHLVL", name == "_", strings.HasPrefix(name, "BASH_FUNC_"):
		default:
			env = append(env, entry)
		}
	}
	return env
}

func variable(i int) string { return "__CODEX_SHELL_SNAPSHOT_" + strconv.Itoa(i) }

// Variables returns variables for the environment of a command with Argv, which removes them before
// the command line runs. The state is in variables because a sandbox would have to grant access to
// a file or descriptor, and an argument must not be that large.
func (s *Snapshot) Variables() []string {
	list := make([]string, len(s.pieces))
	for i, piece := range s.pieces {
		list[i] = variable(i) + "=" + piece
	}
	return list
}

// Argv converts argv, `[SHELL, "-lc", COMMAND, …]`, to a command that restores the state instead of
// reading start-up files. `-p` makes bash ignore BASH_ENV and functions in the environment.
func (s *Snapshot) Argv(argv []string) []string {
	var restore, names strings.Builder
	for i := range s.pieces {
		restore.WriteString("$" + variable(i))
		names.WriteString(" " + variable(i))
	}
	script := `\builtin eval "\builtin unset` + names.String() + "\n" + restore.String() + "\"\n" + argv[2]
	return append([]string{argv[0], "-pc", script}, argv[3:]...)
}
