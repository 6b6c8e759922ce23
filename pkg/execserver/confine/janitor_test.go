package confine

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"testing"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/placeholders"
	"codex.internal/pkg/sandbox/runner"
)

// TestAJanitorThatEndsAtOnceIsNoticed: the server notices the end of its janitor when the
// socket closes, or because the janitor was already reaped. It does not wait for the timeout.
func TestAJanitorThatEndsAtOnceIsNoticed(t *testing.T) {
	supervisor, err := process.NewSupervisor(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	runtime, err := runner.NewRuntime(runner.Options{Launcher: "/bin/true", Helper: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	c := New(Options{Log: slog.New(slog.DiscardHandler), Supervisor: supervisor})
	defer c.Close()
	if _, err := c.janitor.start(runtime); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the janitor that has ended: got %v, want the end of its socket", err)
	}
}

// TestJanitorName: an operator who kills leftover processes must be able to recognize the
// launcher's janitors.
func TestJanitorName(t *testing.T) {
	if process.JanitorName != placeholders.JanitorName {
		t.Errorf("the launcher calls its janitor %q, and %q is spared", placeholders.JanitorName, process.JanitorName)
	}
	if len(placeholders.JanitorName) > 15 {
		t.Errorf("the kernel cuts %q", placeholders.JanitorName)
	}
}
