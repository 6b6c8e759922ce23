package tracing

import (
	"context"
	"encoding/binary"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/wire/logtext"
)

// Kind is the kind of a span, as in OpenTelemetry's protobuf.
type Kind int

// The kinds of spans.
const (
	Internal Kind = 1
	Server   Kind = 2
	Client   Kind = 3
)

// Span is an operation with a duration. Its methods may be called from any goroutine, and do
// nothing if it is nil or has ended.
type Span struct {
	tracer *Tracer
	name   string
	kind   Kind
	parent [8]byte // zero: the span has no parent
	began  time.Time
	ctx    Context

	mu         sync.Mutex
	attributes []attribute
	took       time.Duration
	failed     bool
	ended      bool
}

// attribute is a name with a value: a string, an int64 or a bool.
type attribute struct {
	name  string
	value any
}

// Start begins a span at the given time, as a child of parent. Without a valid parent, it
// begins a new trace. The caller must call End.
func (t *Tracer) Start(parent Context, name string, kind Kind, at time.Time) *Span {
	if t == nil {
		return nil
	}
	s := &Span{tracer: t, name: name, kind: kind, began: at}
	if parent.IsValid() {
		s.ctx, s.parent = parent, parent.Span
	} else {
		for s.ctx.Trace == [16]byte{} {
			binary.BigEndian.PutUint64(s.ctx.Trace[:], rand.Uint64())
			binary.BigEndian.PutUint64(s.ctx.Trace[8:], rand.Uint64())
		}
	}
	s.ctx.Sampled = t.sampler.sample(parent, s.ctx.Trace)
	for s.ctx.Span = [8]byte{}; s.ctx.Span == [8]byte{}; {
		binary.BigEndian.PutUint64(s.ctx.Span[:], rand.Uint64())
	}
	return s
}

// Remote returns a span that another program exports, as the parent of further spans; nil if t
// is nil or c is invalid.
func (t *Tracer) Remote(c Context) *Span {
	if t == nil || !c.IsValid() {
		return nil
	}
	return &Span{tracer: t, ctx: c, ended: true}
}

// Child begins a span within s at the current time. If s is nil, it returns nil.
func (s *Span) Child(name string, kind Kind) *Span {
	if s == nil {
		return nil
	}
	return s.tracer.Start(s.ctx, name, kind, time.Now())
}

// Context identifies the span. It returns the zero Context if the span is nil.
func (s *Span) Context() Context {
	if s == nil {
		return Context{}
	}
	return s.ctx
}

// Set sets a text attribute, of which at most maxValue bytes are stored.
func (s *Span) Set(name, value string) {
	if s != nil {
		s.set(name, logtext.Clip(strings.ToValidUTF8(value, "\uFFFD"), maxValue))
	}
}

// SetInt sets a numeric attribute.
func (s *Span) SetInt(name string, value int64) { s.set(name, value) }

// SetBool sets a boolean attribute.
func (s *Span) SetBool(name string, value bool) { s.set(name, value) }

func (s *Span) set(name string, value any) {
	if s == nil || !s.ctx.Sampled {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended && len(s.attributes) < maxAttributes {
		s.attributes = append(s.attributes, attribute{name, value})
	}
}

// End ends the span. failed means that the operation has failed.
func (s *Span) End(failed bool) {
	if s == nil || !s.ctx.Sampled {
		return
	}
	s.mu.Lock()
	again := s.ended
	if !again {
		s.ended, s.failed, s.took = true, failed, time.Since(s.began)
	}
	s.mu.Unlock()
	if !again {
		s.tracer.enqueue(s)
	}
}

// key is the key of a span in a context.
type key struct{}

// With returns a context in which From finds the span; ctx itself if the span is nil.
func (s *Span) With(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return context.WithValue(ctx, key{}, s)
}

// From returns the span of a context, or nil.
func From(ctx context.Context) *Span {
	s, _ := ctx.Value(key{}).(*Span)
	return s
}
