package observe

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"
)

// TestPrincipals: the first principals have series of their own, all others share one, and without the option there are none.
func TestPrincipals(t *testing.T) {
	for most, wanted := range map[int][]string{
		0: nil,
		2: {
			`exec_server_principal_requests_total{principal="token a"} 3`, `exec_server_principal_requests_total{principal="token b"} 1`,
			`exec_server_principal_requests_total{principal="other"} 5`, `exec_server_principal_processes_started_total{principal="token b"} 1`,
			`exec_server_principal_processor_seconds_total{principal="token b"} 1.5`,
			`exec_server_principal_limit_used{principal="token a",limit="processes"} 4`,
			`exec_server_principal_limit_used{principal="other",limit="processes"} 11`,
		},
	} {
		ev, m := New(Options{
			Log: slog.New(slog.DiscardHandler), Totals: func() Totals { return Totals{} }, Shares: func(func(Limit, int64, int64)) {},
			Methods: []string{"m"}, Principals: most,
			PrincipalShares: func(used func(string, Limit, int64)) {
				used("token a", LimitProcesses, 4)
				used("token c", LimitProcesses, 5)
				used("token d", LimitProcesses, 6)
			},
		})
		for i, principal := range strings.Fields("a a a b c d e f g") {
			ev.RequestDone.Tell(RequestEnd{Request: &Request{Principal: "token " + principal, Method: "m", Arrived: time.Now()}, Err: fmt.Errorf("%d", i)})
		}
		p := &Process{Session: Session{Principal: "token b"}, Log: slog.New(slog.DiscardHandler)}
		ev.ProcessStarted.Tell(p)
		p.Exit.Processor = 1500 * time.Millisecond
		ev.ProcessExited.Tell(p)
		var b strings.Builder
		if err := m.set.Write(&b); err != nil {
			t.Fatal(err)
		}
		for _, line := range wanted {
			if !strings.Contains(b.String(), "\n"+line+"\n") {
				t.Errorf("%d principals: got\n%s\nwant the line %s", most, b.String(), line)
			}
		}
		if n := strings.Count(b.String(), "\nexec_server_principal_requests_total{"); n != min(most, 1)*(most+1) {
			t.Errorf("%d principals: got %d series, want %d", most, n, min(most, 1)*(most+1))
		}
	}
}
