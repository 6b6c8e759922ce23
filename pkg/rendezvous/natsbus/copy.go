package natsbus

import (
	"context"
	"fmt"
	"strings"
	"time"

	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/rendezvous"
	"codex.internal/pkg/wire/jsonwire"
)

// copied is this node's copy of a registration.
type copied struct {
	record
	since time.Time // when it arrived last
}

// routineWatch keeps the copy of the registrations.
func (s *State) routineWatch(ctx context.Context) {
	for {
		err := s.registrations.watch(ctx, s.copy)
		if ctx.Err() != nil {
			return
		}
		s.node.log.Warn("cannot watch registrations; trying again", "error", err)
		if wait.For(ctx, watchPause) != nil {
			return
		}
	}
}

// copy handles a change of the bucket. If there is no value, the key was removed.
func (s *State) copy(key string, value []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id, isRecord := strings.CutPrefix(key, prefixByID)
	switch {
	case isRecord && value == nil:
		delete(s.copied, id)
	case isRecord:
		c := &copied{since: time.Now()}
		if err := jsonwire.Unmarshal(value, &c.record); err != nil {
			s.node.log.Error("a registration cannot be read", "registration", id, "error", err)
			return
		}
		s.copied[id] = c
	case value == nil:
		delete(s.newest, key)
	default:
		s.newest[key] = string(value)
	}
}

// forgetCopies removes registrations that NATS has removed without a notification, and those whose
// executor can no longer reconnect with any of its URLs. The caller holds mu.
func (s *State) forgetCopies(now time.Time) {
	for id, c := range s.copied {
		if now.Sub(c.since) < registrationTime && (c.Node != "" || now.Before(c.Expires)) {
			continue
		}
		delete(s.copied, id)
		if key := keyNewest(c.Environment); s.newest[key] == id {
			delete(s.newest, key)
		}
	}
}

// checkLimits returns an error if one more registration would exceed a limit.
func (s *State) checkLimits(reg *rendezvous.Registration) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	all, mine := 0, 0
	known, again := false, false // the environment exists and belongs to the token
	for _, id := range s.newest {
		c := s.copied[id]
		if c == nil {
			continue
		}
		all++
		if c.Token == reg.Token {
			mine++
		}
		if c.Environment == reg.Environment {
			known, again = true, c.Token == reg.Token
		}
	}
	if !known && all >= rendezvous.MaxEnvironments || !again && mine >= rendezvous.TokenEnvironments {
		return fmt.Errorf("environment %q: %w", reg.Environment, rendezvous.ErrTooMany)
	}
	return nil
}

// List implements rendezvous.State.
func (s *State) List() []rendezvous.Listed {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]rendezvous.Listed, 0, len(s.newest))
	for _, id := range s.newest {
		if c := s.copied[id]; c != nil {
			list = append(list, rendezvous.Listed{
				Registration: c.Registration, Connected: c.Node != "" && s.node.Bus.alive(c.Node), Connection: c.Connection,
			})
		}
	}
	return list
}
