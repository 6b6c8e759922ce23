package observe

import (
	"log/slog"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tracing"
)

// Options say what observes a server.
type Options struct {
	Version string   // of the program
	Methods []string // that the server answers
	Causes  []execproto.Cause
	Log     *slog.Logger
	// Totals returns what there is at the moment.
	Totals func() Totals

	Audit *Audit // nil: there is no audit trail
	// Tracer exports spans; nil: none are exported. ClientTraces has the traces of clients known
	// without it, too, because commands get them.
	Tracer       *tracing.Tracer
	ClientTraces bool
	// Within is, in the keeper of a detached process, the span at its server to which the process
	// belongs; nil: this is no keeper.
	Within *tracing.Context
}

// New returns events that metrics, the log and, as the options say, the audit trail and traces
// observe, in an order that matters only where one refuses: a span is begun before and is ended
// also then.
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
