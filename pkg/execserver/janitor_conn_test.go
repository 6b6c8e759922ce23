package execserver

import (
	"errors"
	"io"
	"os"
	"testing"

	"codex.internal/pkg/sandbox/runner"
)

// TestAJanitorThatEndsAtOnceIsNoticed: the server learns that its janitor has ended from
// the end of the socket, or because it was reaped already, and not when the wait for it times out.
func TestAJanitorThatEndsAtOnceIsNoticed(t *testing.T) {
	srv, _ := newTestServer(t, Options{})
	runtime, err := runner.NewRuntime(runner.Options{Launcher: "/bin/true", Helper: "/bin/true"})
	if err != nil {
		t.Fatal(err)
	}
	defer runtime.Close()
	if _, err := srv.janitor.start(runtime); !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, os.ErrProcessDone) {
		t.Errorf("the janitor that has ended: %v", err)
	}
}
