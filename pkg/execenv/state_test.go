package execenv

import (
	"errors"
	"slices"
	"testing"

	"codex.internal/pkg/execclient"
)

// Each loss and each recovery is reported once, whichever part notices it first.
func TestStateMerger(t *testing.T) {
	lost := errors.New("lost")
	for _, tt := range []struct {
		name, events string // d, u: the link goes down, up; c, r, f: the client is connected, recovering, failed
		want         []execclient.State
	}{
		{"link alone", "du", []execclient.State{execclient.Recovering, execclient.Connected}},
		{"link, then session", "drc", []execclient.State{execclient.Recovering, execclient.Connected}},
		{"session alone", "rc", []execclient.State{execclient.Recovering, execclient.Connected}},
		{"the next stream's link does not matter yet", "rduc", []execclient.State{execclient.Recovering, execclient.Connected}},
		{"in the end", "drf", []execclient.State{execclient.Recovering, execclient.Failed}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var m stateMerger
			var got []execclient.State
			client := m.start(func(c execclient.StateChange) { got = append(got, c.State) })
			for _, event := range tt.events {
				switch event {
				case 'd':
					m.linkChanged(lost)
				case 'u':
					m.linkChanged(nil)
				case 'c':
					client(execclient.StateChange{State: execclient.Connected})
				case 'r':
					client(execclient.StateChange{State: execclient.Recovering, Err: lost})
				case 'f':
					client(execclient.StateChange{State: execclient.Failed, Err: lost})
				}
			}
			if !slices.Equal(got, tt.want) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}
