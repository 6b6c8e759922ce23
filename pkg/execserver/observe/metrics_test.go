package observe

import (
	"errors"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
)

// TestRemoteCounts checks what is counted about a server that registers.
func TestRemoteCounts(t *testing.T) {
	_, m := New(Options{Totals: func() Totals { return Totals{} }, Causes: []execproto.Cause{execproto.CauseSessionEnded}})
	r := m.Remote()
	r.Registered(errors.New("no"))
	r.Registered(nil)
	r.Disconnected()
	for range 3 {
		r.Connected()
		r.Disconnected()
	}
	r.Connected()
	var b strings.Builder
	if err := m.set.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{
		`exec_server_remote_registrations_total{result="error"} 1`, `exec_server_remote_registrations_total{result="ok"} 1`,
		"exec_server_remote_connected 1", "exec_server_remote_reconnects_total 3",
		`exec_server_processes_ended_total{cause="sessionEnded"} 0`,
	} {
		if !strings.Contains(b.String(), "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, b.String())
		}
	}
}
