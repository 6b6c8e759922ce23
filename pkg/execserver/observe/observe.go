package observe

import (
	"log/slog"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/internal/metrics"
)

// Options configure the observers of a server.
type Options struct {
	Version string   // version of the program
	Methods []string // the methods that the server answers
	Causes  []execproto.Cause
	Log     *slog.Logger
	// Totals returns the current numbers.
	Totals func() Totals
	// Shares calls used for each limit that clients share, with the limit and the current use.
	Shares func(used func(limit Limit, all, used int64))

	// PrincipalShares is Shares for each principal. Principals is how many principals have metrics of their own; 0: there are
	// no metrics of principals.
	PrincipalShares func(used func(principal string, limit Limit, used int64))
	Principals      int
	// Clients returns how many clients of each program are connected.
	Clients func() map[metrics.Program]int

	// TokenEnd returns when the next token expires; zero: none does.
	TokenEnd func() time.Time
	// CertificateEnd returns when the certificate for clients expires; zero: there is none.
	CertificateEnd func() time.Time

	Audit *Audit // nil: no audit trail
	// Tracer exports spans; nil: none are exported. ClientTraces makes the server read clients'
	// traces even without a Tracer, because it passes them to commands.
	Tracer       *tracing.Tracer
	ClientTraces bool
	// Within is set in the keeper of a detached process: the span, at its server, to which the
	// process belongs. Nil: this is not a keeper.
	Within *tracing.Context
}

// New returns Events with these observers: metrics, the log and, if configured, the audit trail
// and traces. Their order matters only if one of them returns an error: a span begins before
// that, and ends after it.
func New(o Options) (*Events, *Metrics) {
	ev := new(Events)
	m := newMetrics(&o, ev)
	if o.Principals > 0 {
		m.addPrincipals(&o, ev)
	}
	addLog(ev, o.Log)
	if o.Tracer != nil || o.ClientTraces {
		t := &traces{tracer: o.Tracer, within: o.Within}
		t.observe(ev)
		if o.Tracer != nil {
			t.count(m)
		}
	}
	if o.Audit != nil {
		o.Audit.observe(ev)
	}
	return ev, m
}
