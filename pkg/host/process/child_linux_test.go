package process

import (
	"os/exec"
	"sync"
	"testing"
)

// TestOutputIsNotTakenForAnOrphan runs programs that end at once while the supervisor constantly
// searches for orphans. In an earlier version, a server's probe was reaped as an orphan, and the
// server assumed that every sandbox was broken.
func TestOutputIsNotTakenForAnOrphan(t *testing.T) {
	s, err := NewSupervisor(Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	done := make(chan struct{})
	var looking sync.WaitGroup
	looking.Go(func() {
		for {
			select {
			case <-done:
				return
			default:
				s.reapOrphan()
			}
		}
	})
	for range 100 {
		if out, err := s.Output(exec.Command("/bin/echo", "here")); err != nil || string(out) != "here\n" {
			t.Errorf("got %q, %v", out, err)
			break
		}
	}
	close(done)
	looking.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.pids) != 0 {
		t.Errorf("pids that are still known: %v", s.pids)
	}
}
