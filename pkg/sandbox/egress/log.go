package egress

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// recordLimit passes records on to another handler, at most maxRecords of level info
// and above. A process that is refused a host in a loop writes thousands of them in a
// second, and would fill the disk of the server. Further ones have level debug, and are
// counted. Its methods may be called from any goroutine.
type recordLimit struct {
	slog.Handler
	records *atomic.Int64 // shared by all loggers that were derived from one
}

// limitRecords returns a logger with its own limit.
func limitRecords(log *slog.Logger) (*slog.Logger, *recordLimit) {
	l := &recordLimit{Handler: log.Handler(), records: new(atomic.Int64)}
	return slog.New(l), l
}

// Handle passes a record on.
func (l *recordLimit) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelInfo && l.records.Add(1) > maxRecords {
		r.Level = slog.LevelDebug
		if !l.Enabled(ctx, r.Level) {
			return nil
		}
	}
	return l.Handler.Handle(ctx, r)
}

// WithAttrs returns a handler with the same limit.
func (l *recordLimit) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &recordLimit{Handler: l.Handler.WithAttrs(attrs), records: l.records}
}

// WithGroup returns a handler with the same limit.
func (l *recordLimit) WithGroup(name string) slog.Handler {
	return &recordLimit{Handler: l.Handler.WithGroup(name), records: l.records}
}

// close logs how many records were left out.
func (l *recordLimit) close() {
	if left := l.records.Load() - maxRecords; left > 0 {
		slog.New(l.Handler).Info("network proxy: left out records of one process", "records", left, "limit", maxRecords)
	}
}
