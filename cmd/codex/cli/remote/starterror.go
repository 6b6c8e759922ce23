package remote

import (
	"errors"
	"fmt"
	"io/fs"
	"os/exec"
	"regexp"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/host/terminal"
)

// notStarted is the error for a command that the server could not start, in the words of a shell.
type notStarted struct {
	text  string
	cause error
}

func (e *notStarted) Error() string { return e.text }

// As and Is find the cause. The cause is not printed, because it has the same content in the
// protocol's words.
func (e *notStarted) As(target any) bool   { return errors.As(e.cause, target) }
func (e *notStarted) Is(target error) bool { return errors.Is(e.cause, target) }

// shellSyntax are characters that have a meaning only in shells. If a program name contains one,
// the user probably meant a shell command line.
const shellSyntax = " \t\n;|&<>$`"

const notExecutableText = ": permission denied; is it an executable file?"

// startError returns the error for a start of argv that the server refused.
func startError(err error, argv []string) error {
	program := argv[0]
	switch {
	case errors.Is(err, exec.ErrNotFound):
		err = &notStarted{program + ": command not found", err}
		if len(argv) == 1 && strings.ContainsAny(program, shellSyntax) {
			err = cmdutil.WithAdvice(err, "this is one word, and no shell reads it: write sh -c "+shellCommand(argv)+" behind the --")
		}
	case notExecutable(err):
		err = &notStarted{program + notExecutableText, err}
	case maxSandbox.MatchString(refusal(err)):
		err = cmdutil.WithAdvice(err, "the token permits codex remote run --sandbox "+maxSandbox.FindStringSubmatch(refusal(err))[1])
	}
	return err
}

// maxSandbox matches the refusal of a process whose sandbox is weaker than its token permits.
var maxSandbox = regexp.MustCompile(`the ceiling of this token is --max-sandbox (read-only|workspace-write);`)

// notExecuted is the launcher's message about a command that it could not execute: the program, and the error.
var notExecuted = regexp.MustCompile(`^codex-linux-sandbox: Failed to execvp (.*): (No such file or directory|Permission denied) \(os error [0-9]+\)(\r?\n)$`)

// inShellWords returns the first output of a sandboxed command. If that is the launcher's message, it returns the error
// that the same command causes without a sandbox. The launcher has the words of Codex CLI.
func inShellWords(output []byte, argv []string) []byte {
	m := notExecuted.FindSubmatch(output)
	if m == nil || string(m[1]) != argv[0] {
		return output
	}
	err := error(&notStarted{argv[0] + notExecutableText, fs.ErrPermission})
	if string(m[2]) != "Permission denied" {
		err = startError(exec.ErrNotFound, argv)
	}
	text := fmt.Sprintf("Error: %s\n%s", terminal.Text(err.Error()), cmdutil.AdviceOn(err))
	return []byte(strings.ReplaceAll(text, "\n", string(m[3])))
}

// notExecutable reports whether the server found the program but may not execute it.
func notExecutable(err error) bool {
	return errors.Is(err, fs.ErrPermission) && strings.Contains(refusal(err), ": program ")
}

// refusal returns the server's error text.
func refusal(err error) string {
	var refused *execclient.ServerError
	if errors.As(err, &refused) {
		return refused.Message
	}
	return ""
}
