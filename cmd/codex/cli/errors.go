package cli

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"codex.internal/pkg/host/terminal"
)

// Exit codes.
const (
	exitFailed      = 1
	exitUsage       = 2
	exitTimeout     = 124 // as of timeout(1)
	exitOurs        = 125 // of remote exec: not the command failed
	exitDenied      = 126 // of remote exec: the sandbox denied it, or somebody did
	exitNotStarted  = 127 // a remote command could not be started, as in a shell
	exitInterrupted = 130 // as in a shell
	exitUnreachable = 255
)

// exitError is an error with an exit code of its own. Without err it only
// carries the code: everything has been said.
type exitError struct {
	code int
	err  error
}

func (e *exitError) Error() string {
	if e.err == nil {
		return fmt.Sprintf("exit code %d", e.code)
	}
	return e.err.Error()
}

func (e *exitError) Unwrap() error { return e.err }

// usagef is the error of a command that was called in a wrong way.
func usagef(format string, args ...any) error {
	return &exitError{exitUsage, fmt.Errorf(format, args...)}
}

func exitCode(err error) int {
	var e *exitError
	if errors.As(err, &e) {
		return e.code
	}
	return exitFailed
}

// advisedError is an error with what can be done about it, for which there is
// no room in its text: that is Codex CLI's.
type advisedError struct {
	err    error
	advice string
}

func (e *advisedError) Error() string { return e.err.Error() }

func (e *advisedError) Unwrap() error { return e.err }

// advised adds advice to an error; without any it returns err.
func advised(err error, advice string) error {
	if advice == "" {
		return err
	}
	return &advisedError{err, advice}
}

// adviceOn is the line of advice below an error and its causes; empty: there
// is none.
func adviceOn(err error) string {
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

// causedBy lists the causes of an error under its own text, as Codex CLI
// does.
func causedBy(err error) string {
	var b strings.Builder
	for _, cause := range causes(err) {
		if b.Len() == 0 {
			b.WriteString("\nCaused by:\n")
		}
		fmt.Fprintf(&b, "    %s\n", terminal.Text(cause))
	}
	return b.String()
}

// listenHint says what to do when an address cannot be listened on; empty: there
// is nothing to say.
func listenHint(err error) string {
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
