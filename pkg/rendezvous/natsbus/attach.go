package natsbus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"codex.internal/pkg/rendezvous"
)

// Attach implements rendezvous.State. The generation is the revision of the record that stores
// where the executor is connected. Revisions only grow.
func (s *State) Attach(ctx context.Context, id string, c rendezvous.ExecutorConnection) (uint64, error) {
	for range casAttempts {
		rec, revision, err := s.read(ctx, id, leader)
		if err != nil {
			return 0, err
		}
		if rec.Node == "" {
			if newest, _, err := s.isNewest(ctx, &rec.Registration); err != nil {
				return 0, err
			} else if !newest {
				s.dropReplaced(ctx, id)
				return 0, fmt.Errorf("registration %s: %w", id, rendezvous.ErrNotRegistered)
			}
		}
		rec.Node, rec.Connection = s.node.id, &c
		generation, err := s.write(ctx, rec, revision)
		if errors.Is(err, errConflict) {
			continue
		}
		if err != nil {
			return 0, err
		}
		s.noteAttached(id, generation)
		return generation, nil
	}
	return 0, fmt.Errorf("registration %s: %w: %w", id, rendezvous.ErrUnavailable, errConflict)
}

// noteAttached records an attachment, unless a newer one is already recorded: two may be made at
// the same time.
func (s *State) noteAttached(id string, generation uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if former := s.attached[id]; former == nil || former.generation < generation {
		s.attached[id] = &attachment{generation: generation, revision: generation, renewed: time.Now()}
	}
}

// Detach implements rendezvous.State. If NATS cannot be reached, Sweep records the change later.
func (s *State) Detach(ctx context.Context, id string, generation uint64, at time.Time) {
	s.mu.Lock()
	a := s.attached[id]
	mine := a != nil && a.generation == generation
	if mine {
		a.over, a.until = true, at
	}
	s.mu.Unlock()
	if mine {
		s.finishDetach(ctx, id, a)
	}
}

// finishDetach records that an executor is not connected, unless it is
// connected elsewhere.
func (s *State) finishDetach(ctx context.Context, id string, a *attachment) {
	s.mu.Lock()
	revision, until := a.revision, a.until
	s.mu.Unlock()
	err := s.noteDetached(ctx, id, revision, until)
	if err != nil && !errors.Is(err, errConflict) && !errors.Is(err, rendezvous.ErrNotRegistered) {
		s.node.log.Warn("cannot store yet that an executor has disconnected", "registration", id, "error", err)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.attached[id] == a {
		delete(s.attached, id)
	}
}

func (s *State) noteDetached(ctx context.Context, id string, revision uint64, until time.Time) error {
	rec, now, err := s.read(ctx, id, leader)
	if err != nil {
		return err
	}
	if now != revision {
		return errConflict
	}
	newest, _, err := s.isNewest(ctx, &rec.Registration)
	if err != nil {
		return err
	}
	if !newest {
		return s.registrations.remove(ctx, keyByID(id), revision)
	}
	rec.Node = ""
	if rec.Connection != nil { // a node of an older version may have written the record
		rec.Connection.Until = until
	}
	_, err = s.write(ctx, rec, revision)
	return err
}

// Sweep implements rendezvous.State. NATS itself removes expired values, so Sweep only renews the
// registrations of the executors that are connected to this node.
func (s *State) Sweep(ctx context.Context) {
	type due struct {
		id string
		a  *attachment
	}
	var over, old []due
	now := time.Now()
	s.spent.Sweep(now)
	s.mu.Lock()
	for id, a := range s.attached {
		switch {
		case a.over:
			over = append(over, due{id, a})
		case now.Sub(a.renewed) > renewInterval:
			old = append(old, due{id, a})
		}
	}
	s.forgetCopies(now)
	s.mu.Unlock()
	// If ctx ends before all are handled, the next sweep handles the rest.
	for _, d := range over {
		if ctx.Err() == nil {
			s.finishDetach(ctx, d.id, d.a)
		}
	}
	for _, d := range old {
		if ctx.Err() != nil {
			return
		}
		if err := s.renew(ctx, d.id, d.a, now); err != nil {
			s.node.log.Warn("cannot renew a registration", "registration", d.id, "error", err)
		}
	}
}

// renew writes a registration again, before NATS removes it.
func (s *State) renew(ctx context.Context, id string, a *attachment, now time.Time) error {
	rec, revision, err := s.read(ctx, id, leader)
	if err != nil {
		return err
	}
	s.mu.Lock()
	mine := s.attached[id] == a && a.revision == revision
	s.mu.Unlock()
	if !mine {
		return nil // the executor has moved to another node
	}
	newest, pointer, err := s.isNewest(ctx, &rec.Registration)
	if err == nil && newest {
		_, err = s.registrations.put(ctx, keyNewest(rec.Environment), []byte(id), pointer)
	}
	if err == nil {
		revision, err = s.write(ctx, rec, revision)
	}
	if err != nil {
		return err
	}
	s.noteRenewed(ctx, id, a, revision, now)
	return nil
}

// noteRenewed records the revision of a renewed registration. If its executor disconnected
// meanwhile, that was recorded for the earlier revision, so it is recorded again.
func (s *State) noteRenewed(ctx context.Context, id string, a *attachment, revision uint64, now time.Time) {
	s.mu.Lock()
	a.revision, a.renewed = revision, now
	over := a.over
	s.mu.Unlock()
	if over {
		s.finishDetach(ctx, id, a)
	}
}
