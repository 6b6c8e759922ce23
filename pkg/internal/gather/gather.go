// Package gather keeps clients from filling the log of a server with repeated records: a client with a wrong token causes a
// thousand refused connections in a second. The first record is logged, and the repetitions of a minute are counted in one
// record, with the worst sources.
package gather

import (
	"context"
	"log/slog"
	"net"
	"slices"
	"sync"
	"time"
)

const (
	// window is how long repetitions are counted before they are logged.
	window = time.Minute
	// maxKeys bounds the kinds of records that are counted separately, and maxSources the values of each of their sources. Further
	// ones are counted together.
	maxKeys    = 64
	maxSources = 1024
)

// Rule says which records are repetitions of each other: those with the same value of the attribute Key; "": all with the message.
// Sources are the attributes that name who causes them, such as an address, whose port does not count, and a token. A record may
// lack some of them.
type Rule struct {
	Key     string
	Sources []string
}

// Handler is a slog.Handler that gathers records and passes them on.
type Handler struct {
	slog.Handler
	shared *shared     // by all handlers that were derived from one
	attrs  []slog.Attr // of Handler
}

type shared struct {
	rules map[string]Rule
	to    slog.Handler // has no attributes of a single client

	mu     sync.Mutex
	closed bool
	open   map[kind]*repeated
}

// kind is a message with the value of its key.
type kind struct{ message, key string }

// repeated is what was gathered since the last record of a kind.
type repeated struct {
	level   slog.Level
	count   int
	sources map[string]map[string]int // by attribute and value
	timer   *time.Timer
}

// New returns a handler that gathers the records with the messages of rules. Close must be called.
func New(to slog.Handler, rules map[string]Rule) *Handler {
	return &Handler{Handler: to, shared: &shared{rules: rules, to: to, open: make(map[kind]*repeated)}}
}

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if rule, ok := h.shared.rules[r.Message]; ok && h.counted(rule, r) {
		return nil
	}
	return h.Handler.Handle(ctx, r)
}

// counted counts a record if it is a repetition. If not, later ones are.
func (h *Handler) counted(rule Rule, r slog.Record) bool {
	k, sources := kind{message: r.Message}, make(map[string]string)
	look := func(a slog.Attr) bool {
		switch value := a.Value.String(); {
		case a.Key == rule.Key:
			k.key = value
		case slices.Contains(rule.Sources, a.Key) && value != "":
			if host, _, err := net.SplitHostPort(value); err == nil {
				value = host
			}
			sources[a.Key] = value
		}
		return true
	}
	for _, a := range h.attrs {
		look(a)
	}
	r.Attrs(look)
	s := h.shared
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
		x = &repeated{level: r.Level}
		x.timer = time.AfterFunc(window, func() { s.end(k) })
		s.open[k] = x
		return false
	}
	x.count++
	if x.sources == nil {
		x.sources = make(map[string]map[string]int)
	}
	for name, value := range sources {
		if x.sources[name] == nil {
			x.sources[name] = make(map[string]int)
		}
		if _, known := x.sources[name][value]; known || len(x.sources[name]) < maxSources {
			x.sources[name][value]++
		}
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
	for _, name := range rule.Sources {
		worst := ""
		for value, count := range x.sources[name] {
			if most := x.sources[name][worst]; count > most || count == most && value < worst {
				worst = value
			}
		}
		if worst != "" {
			r.AddAttrs(slog.String("worst_"+name, worst), slog.Int("worst_"+name+"_count", x.sources[name][worst]))
		}
	}
	_ = s.to.Handle(context.Background(), r)
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
	return &Handler{h.Handler.WithAttrs(attrs), h.shared, slices.Concat(h.attrs, attrs)}
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(name string) slog.Handler {
	return &Handler{h.Handler.WithGroup(name), h.shared, h.attrs}
}
