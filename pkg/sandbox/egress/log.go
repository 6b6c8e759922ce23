package egress

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// recordLimit passes records on to another handler. It passes at most maxRecords of level info and
// above, gives further ones level debug, and counts them. Without a limit, a process that requests
// a refused host in a loop would cause thousands of records in a second, and fill the disk of the
// server. Its methods may be called from any goroutine.
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

// close logs how many records exceeded the limit.
func (l *recordLimit) close() {
	if left := l.records.Load() - maxRecords; left > 0 {
		slog.New(l.Handler).Info("network proxy: left out records of one process", "records", left, "limit", maxRecords)
	}
}
