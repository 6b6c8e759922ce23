package process

import (
	"os/signal"
	"syscall"
	"testing"
)

// TestInheritedIgnoreSurvivesNewSupervisor is about a server in the background of a script, which
// the shell starts with SIGINT ignored. The supervisor sets a handler, so that its processes do not
// ignore the signal. The server itself must still know that it has to ignore it.
func TestInheritedIgnoreSurvivesNewSupervisor(t *testing.T) {
	signal.Ignore(syscall.SIGINT)
	defer signal.Reset(syscall.SIGINT)
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if !InheritedIgnore(syscall.SIGINT) {
		t.Error("SIGINT was ignored before the supervisor was made, and no longer is")
	}
}
