package cmdutil

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"codex.internal/pkg/host/terminal"
)

// Exit codes of the commands.
const (
	ExitFailed        = 1
	ExitUsage         = 2
	ExitDropped       = 3   // of remote logs: not all of the output is retained
	ExitTimeout       = 124 // the same as timeout(1)
	ExitOurs          = 125 // of remote exec: an error before or outside of the command
	ExitDenied        = 126 // of remote exec: the sandbox or a person denied the command
	ExitNotExecutable = 126 // the remote command exists but cannot be executed, as in a shell
	ExitNotStarted    = 127 // a remote command could not be started, as in a shell
	ExitInterrupted   = 130 // as in a shell
	ExitBrokenPipe    = 141 // the reader of the output has closed it (SIGPIPE), as in a shell
	ExitUnreachable   = 255

	signalBase = 128 // plus the number of a signal, as in a shell
)

// ExitError is an error with an exit code. If Err is nil, the message was printed already. If Signal is not 0, the
// program ends by that signal, and Code is the exit code that a shell shows for it.
type ExitError struct {
	Code   int
	Err    error
	Signal syscall.Signal // 0: no signal
}

// Signaled returns the error of a program that must end by a signal. err is printed before; it may be nil.
func Signaled(sig syscall.Signal, err error) error {
	return &ExitError{Code: signalBase + int(sig), Err: err, Signal: sig}
}

func (e *ExitError) Error() string {
	if e.Err == nil {
		return fmt.Sprintf("exit code %d", e.Code)
	}
	return e.Err.Error()
}

func (e *ExitError) Unwrap() error { return e.Err }

// Usagef returns the error of a command that was used wrongly.
func Usagef(format string, args ...any) error {
	return &ExitError{Code: ExitUsage, Err: fmt.Errorf(format, args...)}
}

func ExitCode(err error) int {
	var e *ExitError
	if errors.As(err, &e) {
		return e.Code
	}
	return ExitFailed
}

// advisedError is an error with advice. The advice is not part of the text, because the text must equal that of
// Codex CLI.
type advisedError struct {
	err    error
	advice string
}

func (e *advisedError) Error() string { return e.err.Error() }

func (e *advisedError) Unwrap() error { return e.err }

// WithAdvice adds advice to an error. If advice is empty it returns err.
func WithAdvice(err error, advice string) error {
	if advice == "" {
		return err
	}
	return &advisedError{err, advice}
}

// AdviceOn returns the line of advice to print below an error and its causes; it is empty if there is no advice.
func AdviceOn(err error) string {
	var e *advisedError
	if !errors.As(err, &e) {
		return ""
	}
	return OwnCommands(fmt.Sprintf("hint: %s\n", terminal.Text(e.advice)))
}

// causes returns the texts of wrapped errors that the text of err does not contain.
func causes(err error) []string {
	var list []string
	for told := err.Error(); err != nil; err = errors.Unwrap(err) {
		if text := err.Error(); !strings.Contains(told, text) {
			list = append(list, text)
			told += text
		}
	}
	return list
}

// CausedBy lists the causes of an error below its text, as Codex CLI does.
func CausedBy(err error) string {
	var b strings.Builder
	for _, cause := range causes(err) {
		if b.Len() == 0 {
			b.WriteString("\nCaused by:\n")
		}
		fmt.Fprintf(&b, "    %s\n", terminal.Text(cause))
	}
	return b.String()
}

// ListenHint returns what to do if listening on an address fails; empty if there is no advice.
func ListenHint(err error) string {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return "; something listens there already: choose another port, or 0 for any free one"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		return "; this machine does not have that address"
	case errors.Is(err, syscall.EACCES):
		return "; ports below 1024 are for root"
	default:
		return ""
	}
}
