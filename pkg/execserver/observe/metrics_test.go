package observe

import (
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
)

// TestRemoteCounts checks the counts of registrations and connections to a relay.
func TestRemoteCounts(t *testing.T) {
	_, m := New(Options{Totals: func() Totals { return Totals{} }, Shares: func(func(Limit, int64, int64)) {}, Causes: []execproto.Cause{execproto.CauseSessionEnded}})
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

// TestSpansOfKeepersAreCounted: the metrics of a server that exports spans have the spans that
// keepers have dropped. A server that exports no spans has no such metrics.
func TestSpansOfKeepersAreCounted(t *testing.T) {
	tracer, err := tracing.New(tracing.Options{
		Getenv: func(name string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}[name]
		},
		Transport: func() (*http.Transport, error) { return &http.Transport{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tracer.Shutdown(t.Context()) })
	for _, tt := range []struct {
		name   string
		tracer *tracing.Tracer
		lines  []string
	}{
		{"spans are exported", tracer, []string{`exec_server_spans_dropped_total{reason="queue_full"} 2`, `exec_server_spans_dropped_total{reason="export_failed"} 3`}},
		{"spans are not exported", nil, nil},
	} {
		ev, m := New(Options{Totals: func() Totals { return Totals{} }, Shares: func(func(Limit, int64, int64)) {}, Tracer: tt.tracer})
		ev.KeeperSpansDropped.Tell(tracing.Counts{Full: 1, Failed: 3})
		ev.KeeperSpansDropped.Tell(tracing.Counts{Full: 1})
		var b strings.Builder
		if err := m.set.Write(&b); err != nil {
			t.Fatal(err)
		}
		for _, line := range tt.lines {
			if !strings.Contains(b.String(), "\n"+line+"\n") {
				t.Errorf("%s: got\n%s\nwant the line %s", tt.name, b.String(), line)
			}
		}
		if tt.lines == nil && strings.Contains(b.String(), "spans_dropped") {
			t.Errorf("%s: got\n%s\nwant no numbers of spans", tt.name, b.String())
		}
	}
}

// TestRefusedSandboxesAreCounted: a sandbox that the launcher could not make counts as refused. It once counted as ok.
func TestRefusedSandboxesAreCounted(t *testing.T) {
	ev, m := New(Options{Log: slog.New(slog.DiscardHandler), Totals: func() Totals { return Totals{} }, Shares: func(func(Limit, int64, int64)) {}})
	for _, refusal := range []*execproto.SandboxRefusal{nil, {Reason: "no namespaces"}, {Reason: "no namespaces"}} {
		p := &Process{Backend: "bwrap", Log: slog.New(slog.DiscardHandler)}
		ev.ProcessStarted.Tell(p)
		p.Exit.Refusal = refusal
		ev.ProcessExited.Tell(p)
	}
	ev.ProcessStarted.Tell(&Process{Log: slog.New(slog.DiscardHandler)})
	ev.ProcessStartFailed.Tell(StartFailure{Process: &Process{Backend: "bwrap", Log: slog.New(slog.DiscardHandler)}, Err: errors.New("no memory")})
	var b strings.Builder
	if err := m.set.Write(&b); err != nil {
		t.Fatal(err)
	}
	for _, line := range []string{`"ok"} 1`, `"refused"} 2`, `"error"} 1`} {
		if line = `exec_server_sandbox_starts_total{backend="bwrap",result=` + line; !strings.Contains(b.String(), "\n"+line+"\n") {
			t.Errorf("%s is missing in\n%s", line, b.String())
		}
	}
}

// TestCertificateEnd: the end of a certificate is a metric, which a server without one does not have.
func TestCertificateEnd(t *testing.T) {
	for _, end := range []time.Time{{}, time.Unix(1234567, 0)} {
		_, m := New(Options{
			Log: slog.New(slog.DiscardHandler), Totals: func() Totals { return Totals{} }, Shares: func(func(Limit, int64, int64)) {},
			CertificateEnd: func() time.Time { return end },
		})
		var b strings.Builder
		if err := m.set.Write(&b); err != nil {
			t.Fatal(err)
		}
		if found := strings.Contains(b.String(), "\nexec_server_certificate_expiry_timestamp_seconds 1234567\n"); found == end.IsZero() {
			t.Errorf("the end %v: found %v in\n%s", end, found, b.String())
		}
	}
}
