package execclient

import "testing"

func TestADenialIsToldWithTheExit(t *testing.T) {
	for _, denied := range []bool{false, true} {
		p := &Process{c: &Client{done: make(chan struct{})}, pending: make(map[uint64]Event), changed: make(chan struct{})}
		if p.SandboxDenied() {
			t.Error("denied before the end")
		}
		p.receive(Event{Seq: 2, Kind: Closed})
		p.receive(Event{Seq: 1, Kind: Exited, ExitCode: 1, SandboxDenied: denied})
		if _, err := p.Wait(t.Context()); err != nil || p.SandboxDenied() != denied {
			t.Errorf("%v: %v, %v", denied, p.SandboxDenied(), err)
		}
	}
}
