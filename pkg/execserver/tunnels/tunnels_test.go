package tunnels

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/wire/tunnel"
)

func newTunnels(t *testing.T) *Tunnels {
	shares := share.New(map[observe.Limit]int64{observe.LimitDescriptors: 2 * maxTunnels})
	return NewServer(Options{Events: new(observe.Events)}).New(t.Context(), slog.New(slog.DiscardHandler), shares.Open("", true))
}

// TestTunnelLimit opens as many tunnels as a session may have, and one more.
func TestTunnelLimit(t *testing.T) {
	s := newTunnels(t)
	for range maxTunnels {
		if err := s.reserve(); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.reserve(); err == nil || !strings.Contains(err.Error(), "at most 2048 tunnels") {
		t.Errorf("one more: %v", err)
	}
	s.release()
	if err := s.reserve(); err != nil {
		t.Errorf("in the place of one that ended: %v", err)
	}
	for range maxTunnels {
		s.release()
	}
	s.Close()
	if err := s.reserve(); err == nil {
		t.Error("a session that has ended has tunnels")
	}
}

// TestTunnelBytes opens as many tunnels as a session may have. Their total memory is bounded,
// each of them has a useful window, and a tunnel that ends frees its part.
func TestTunnelBytes(t *testing.T) {
	s := newTunnels(t)
	var all []*tunnel.Stream
	for i := range uint64(maxTunnels) {
		stream, err := s.add(nil, 2*i+1, 1<<40)
		if err != nil {
			t.Fatal(err)
		}
		in, out := stream.Windows()
		if in < tunnel.LeastIn || in > tunnel.Window || out < tunnel.LeastOut || out > tunnel.Window || i < 64 && in+out < 2*tunnel.Window {
			t.Errorf("tunnel %d has windows of %d and %d bytes", i, in, out)
		}
		all = append(all, stream)
	}
	if most := uint64(2*maxBytes + maxTunnels*(tunnel.LeastIn+tunnel.LeastOut)); s.in+s.out > most {
		t.Errorf("they may keep %d bytes, more than %d", s.in+s.out, most)
	}
	for _, stream := range all {
		stream.Fail(errNotResumed)
		stream.Fail(errNotResumed)
	}
	if s.in != 0 || s.out != 0 {
		t.Errorf("%d and %d bytes are left", s.in, s.out)
	}
	if stream, err := s.add(nil, 1, 5); err != nil {
		t.Error(err)
	} else if in, out := stream.Windows(); in != tunnel.Window || out != 5 {
		t.Errorf("afterwards one has windows of %d and %d bytes", in, out)
	}
	s.Close()
}

// TestLimitsHaveNames: the error of a limit contains the limit's name in metrics.
func TestLimitsHaveNames(t *testing.T) {
	full, listening := newTunnels(t), newTunnels(t)
	full.slots = maxTunnels
	for id := range uint64(maxListeners) {
		listening.listeners[id] = &listener{id: id}
	}
	for limit, err := range map[observe.Limit]error{
		observe.LimitTunnels: full.reserve(), observe.LimitListeners: listening.listen(&listener{id: maxListeners}),
	} {
		if at, ok := errors.AsType[*observe.LimitError](err); !ok || at.Limit != limit {
			t.Errorf("got the error %v, want one of the limit %s", err, limit)
		}
	}
}
