package remote

import (
	"errors"
	"io/fs"
	"os/exec"
	"strings"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execclient"
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
		err = &notStarted{program + ": permission denied; is it an executable file?", err}
	}
	return err
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
