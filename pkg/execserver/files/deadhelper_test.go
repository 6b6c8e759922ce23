package files

import (
	"bytes"
	"testing"
	"time"

	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
)

// TestDeadHelper sends a request that is larger than a pipe's buffer to a helper that has
// ended, like one whose sandbox was refused.
func TestDeadHelper(t *testing.T) {
	supervisor, err := process.NewSupervisor(process.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer supervisor.Close()
	srv := NewServer(Options{Sandboxes: func() (*runner.Runtime, error) { return nil, runner.ErrUnenforceable }})
	for range 20 {
		child, err := supervisor.StartChild(process.Spec{Argv: []string{"/bin/false"}, Dir: "/"})
		if err != nil {
			t.Fatal(err)
		}
		if err := child.Stdout.SetReadDeadline(time.Now().Add(10 * time.Second)); err != nil {
			t.Fatal(err)
		}
		var one [1]byte
		if _, err := child.Stdout.Read(one[:]); err == nil {
			t.Fatal("it says something")
		}
		h := &helper{srv: srv, child: child, unhook: func() bool { return true }}
		if _, err := h.ask("fs/readFile", bytes.Repeat([]byte("x"), pipeRoom), []byte("more"), []byte("and more")); err == nil {
			t.Error("it answers")
		}
		if h.told != 0 || h.child != nil {
			t.Errorf("got %d bytes of an answer and child %v, want neither", h.told, h.child)
		}
	}
}
