package cmdutil

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"codex.internal/pkg/host/terminal"
)

// Exit codes.
const (
	ExitFailed        = 1
	ExitUsage         = 2
	ExitDropped       = 3   // of remote logs: not all of the output is retained
	ExitTimeout       = 124 // as of timeout(1)
	ExitOurs          = 125 // of remote exec: not the command failed
	ExitDenied        = 126 // of remote exec: the sandbox denied it, or somebody did
	ExitNotExecutable = 126 // a remote command is there and may not be executed, as in a shell
	ExitNotStarted    = 127 // a remote command could not be started, as in a shell
	ExitInterrupted   = 130 // as in a shell
	ExitBrokenPipe    = 141 // nobody reads the output any more: SIGPIPE, as in a shell
	ExitUnreachable   = 255

	signalBase = 128 // and the number of a signal, as in a shell
)

// ExitError is an error with an exit code of its own. Without err it only
// carries the code: everything has been said. With Signal the program ends by that
// signal, which Code amounts to.
type ExitError struct {
	Code   int
	Err    error
	Signal syscall.Signal // 0: none
}

// Signaled returns the error of a program that ends by a signal, because of err. That
// is printed; it may be nil.
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

// Usagef is the error of a command that was called in a wrong way.
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

// advisedError is an error with what can be done about it, for which there is
// no room in its text: that is Codex CLI's.
type advisedError struct {
	err    error
	advice string
}

func (e *advisedError) Error() string { return e.err.Error() }

func (e *advisedError) Unwrap() error { return e.err }

// WithAdvice adds advice to an error; without any it returns err.
func WithAdvice(err error, advice string) error {
	if advice == "" {
		return err
	}
	return &advisedError{err, advice}
}

// AdviceOn is the line of advice below an error and its causes; empty: there
// is none.
func AdviceOn(err error) string {
	var e *advisedError
	if !errors.As(err, &e) {
		return ""
	}
	return fmt.Sprintf("codex: %s\n", terminal.Text(e.advice))
}

// causes are the reasons behind an error that it does not tell itself.
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

// CausedBy lists the causes of an error under its own text, as Codex CLI
// does.
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

// ListenHint says what to do when an address cannot be listened on; empty: there
// is nothing to say.
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
