// Package gather keeps clients from filling the log of a server with repeated records: a client with a wrong token causes a
// thousand refused connections in a second. The first record is logged, and the repetitions of a minute are counted in one
// record, with the worst source.
package gather

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

const (
	// window is how long repetitions are counted before they are logged.
	window = time.Minute
	// maxKeys bounds the kinds of records that are counted separately, and maxSources the sources of each. Further ones are counted
	// together.
	maxKeys    = 64
	maxSources = 1024
)

// Rule says which records are repetitions of each other: those with the same value of the attribute Key; "": all with the message. Source
// is the attribute that names who causes them, such as an address, whose port does not count; "": none.
type Rule struct{ Key, Source string }

// Handler is a slog.Handler that gathers records and passes them on.
type Handler struct {
	slog.Handler
	shared *shared // by all handlers that were derived from one
}

type shared struct {
	rules map[string]Rule

	mu     sync.Mutex
	closed bool
	open   map[kind]*repeated
}

// kind is a message with the value of its key.
type kind struct{ message, key string }

// repeated is what was gathered since the last record of a kind.
type repeated struct {
	to      slog.Handler // of the latest record
	level   slog.Level
	count   int
	sources map[string]int
	timer   *time.Timer
}

// New returns a handler that gathers the records with the messages of rules. Close must be called.
func New(to slog.Handler, rules map[string]Rule) *Handler {
	return &Handler{to, &shared{rules: rules, open: make(map[kind]*repeated)}}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if rule, ok := h.shared.rules[r.Message]; ok && h.shared.counted(h.Handler, rule, r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// counted counts a record if it is a repetition. If not, later ones are.
func (s *shared) counted(to slog.Handler, rule Rule, r slog.Record) bool {
	k, source := kind{message: r.Message}, ""
	r.Attrs(func(a slog.Attr) bool {
		switch a.Key {
		case rule.Key:
			k.key = a.Value.String()
		case rule.Source:
			source = a.Value.String()
			if host, _, err := net.SplitHostPort(source); err == nil {
				source = host
			}
		}
		return true
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	if s.open[k] == nil && len(s.open) >= maxKeys {
		k.key = ""
	}
	x := s.open[k]
	if x == nil {
		x = &repeated{to: to, level: r.Level}
		x.timer = time.AfterFunc(window, func() { s.end(k) })
		s.open[k] = x
		return false
	}
	x.to = to
	x.count++
	if x.sources == nil {
		x.sources = make(map[string]int)
	}
	if _, known := x.sources[source]; known || len(x.sources) < maxSources {
		x.sources[source]++
	}
	return true
}

// end ends a window: it logs the repetitions, and opens the next window if there were any.
func (s *shared) end(k kind) {
	s.mu.Lock()
	defer s.mu.Unlock()
	x := s.open[k]
	switch {
	case s.closed || x == nil:
	case x.count == 0:
		delete(s.open, k)
	default:
		s.tell(k, x)
		x.count, x.sources = 0, nil
		x.timer.Reset(window)
	}
}

// tell logs the repetitions of a kind. It is called with mu held.
func (s *shared) tell(k kind, x *repeated) {
	rule := s.rules[k.message]
	r := slog.NewRecord(time.Now(), x.level, k.message+", again", 0)
	r.AddAttrs(slog.Int("count", x.count))
	if rule.Key != "" {
		r.AddAttrs(slog.String(rule.Key, k.key))
	}
	if rule.Source != "" {
		worst := ""
		for source, count := range x.sources {
			if count > x.sources[worst] || count == x.sources[worst] && source < worst {
				worst = source
			}
		}
		r.AddAttrs(slog.String("worst_"+rule.Source, worst), slog.Int("worst_count", x.sources[worst]))
	}
	_ = x.to.Handle(context.Background(), r)
}

// Close logs what was counted. Later records are passed on.
func (h *Handler) Close() {
	s := h.shared
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for k, x := range s.open {
		x.timer.Stop()
		if x.count > 0 {
			s.tell(k, x)
		}
	}
	clear(s.open)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &Handler{h.Handler.WithAttrs(attrs), h.shared}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.Handler.WithGroup(name), h.shared}
}
