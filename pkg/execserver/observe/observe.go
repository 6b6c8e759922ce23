package observe

import (
	"log/slog"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
)

// Options configure the observers of a server.
type Options struct {
	Version string   // of the program
	Methods []string // that the server answers
	Causes  []execproto.Cause
	Log     *slog.Logger
	// Totals returns the current numbers.
	Totals func() Totals
	// Shares calls used with each limit that clients share: how much there is, and how much is in use.
	Shares func(used func(limit Limit, all, used int64))

	Audit *Audit // nil: there is no audit trail
	// Tracer exports spans; nil: none are exported. ClientTraces makes clients' traces known
	// even without it, because commands get them.
	Tracer       *tracing.Tracer
	ClientTraces bool
	// Within, in the keeper of a detached process, is the span at its server to which the process
	// belongs; nil: this is not a keeper.
	Within *tracing.Context
}

// New returns events that are observed by metrics, the log and, if configured, the audit trail
// and traces. Their order matters only if one refuses: a span is begun before, and is ended
// also after a refusal.
func New(o Options) (*Events, *Metrics) {
	ev := new(Events)
	m := newMetrics(&o, ev)
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
