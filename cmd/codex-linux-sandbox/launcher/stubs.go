package launcher

import (
	"errors"
	"fmt"
	"slices"

	"codex.internal/pkg/sandbox"
)

// stubs are what the plan's covers are mounted on, and the names that are
// removed when they appear. The launcher does that when the sandbox has ended,
// or, when the launcher is killed, the janitor.
type stubs struct {
	held    []*sandbox.Stub
	undo    *sandbox.Undo
	janitor *janitor // nil: there is nothing to remove
}

// placeStubs makes or joins the stubs of the plan, and drops covers where the
// user has something of their own. Without mounts there are no stubs.
func (l *launch) placeStubs(mounts bool) (*stubs, error) {
	s := &stubs{}
	wanted := mounts && slices.ContainsFunc(l.plan.Mounts, func(m sandbox.Mount) bool { return m.Cover || m.Perhaps })
	if !wanted && len(l.plan.Undo) == 0 {
		return s, nil
	}
	var covers []sandbox.Mount
	if wanted {
		covers = l.plan.Mounts
	}
	opened := make([]*sandbox.Stub, len(covers))
	err := l.takeStubs(s, covers, opened)
	l.plan.Mounts = slices.DeleteFunc(l.plan.Mounts, func(m sandbox.Mount) bool { return m.Kind == 0 })
	if err != nil {
		for _, stub := range opened {
			stub.Close()
		}
		s.remove()
		return nil, ifAppeared(err)
	}
	return s, nil
}

// takeStubs tells the janitor of each stub before it makes that: a launcher may be
// killed at any moment.
func (l *launch) takeStubs(s *stubs, mounts []sandbox.Mount, opened []*sandbox.Stub) (err error) {
	for i := range mounts {
		if m := &mounts[i]; m.Cover || m.Perhaps {
			if opened[i], err = m.OpenStub(); err != nil {
				return err
			}
		}
	}
	for i, stub := range opened {
		if stub == nil {
			continue
		}
		if err := s.findJanitor(l); err != nil {
			return err
		}
		if err := s.janitor.Stub(i, stub); err != nil {
			return err
		}
	}
	if err := l.holdStubs(s, mounts, opened); err != nil {
		return err
	}
	if s.undo, err = sandbox.OpenUndo(l.plan.Undo); err != nil || s.undo == nil {
		return err
	}
	if err := s.findJanitor(l); err != nil {
		return err
	}
	for _, r := range s.undo.Names() {
		if err := s.janitor.Name(r); err != nil {
			return err
		}
	}
	return nil
}

// findJanitor connects the stubs to the launcher's janitor, unless they are.
func (s *stubs) findJanitor(l *launch) error {
	if s.janitor != nil {
		return nil
	}
	if l.janitor == nil || l.janitor.told {
		var err error
		if l.janitor, err = startJanitor(); err != nil {
			return err
		}
	}
	if err := l.janitor.connect(); err != nil {
		return err
	}
	s.janitor = l.janitor
	return nil
}

// holdStubs makes or joins the stubs that were opened for mounts, and takes them out
// of the list.
func (l *launch) holdStubs(s *stubs, mounts []sandbox.Mount, opened []*sandbox.Stub) error {
	for i := range mounts {
		m := &mounts[i]
		if !m.Cover && !m.Perhaps {
			continue
		}
		stub, err := opened[i], error(nil)
		if opened[i] = nil; stub != nil {
			stub, err = stub.Hold(m, func(fd int) error { return s.janitor.Hold(i, fd) })
		}
		if errors.Is(err, sandbox.ErrNotNeeded) {
			if m.Kind != sandbox.BindReadOnly {
				m.Kind = 0
			}
			continue
		}
		var unmasked *sandbox.Unmasked
		if errors.As(err, &unmasked) {
			l.plan.Undo = append(l.plan.Undo, unmasked.UndoName)
			if err = nil; unmasked.Foreign {
				m.Kind = 0
				continue
			}
		}
		if err != nil {
			return err
		}
		switch {
		case stub != nil:
			s.held = append(s.held, stub)
			// Only the placeholder may be there when the view is made.
			m.File, m.ID = !stub.IsDir(), stub.ID()
			if m.Kind != sandbox.BindReadOnly {
				m.Kind = sandbox.EmptyDir
				if m.File {
					m.Kind = sandbox.EmptyFile
				}
			}
		case m.Cover && m.Kind != sandbox.BindReadOnly:
			return &changed{fmt.Errorf("cannot make the sandbox: %s was made while the sandbox was being prepared", m.Target)}
		}
	}
	return nil
}

// ifAppeared returns an error that has the plan made again if something has moved.
func ifAppeared(err error) error {
	if errors.Is(err, sandbox.ErrAppeared) {
		return &changed{err}
	}
	return err
}

// complete tells the janitor that it knows all that there will be to remove, and whose end
// is the end of all in the sandbox. It may be called on nil.
func (s *stubs) complete(init int) error {
	if s == nil || s.janitor == nil {
		return nil
	}
	s.janitor.told = true
	return s.janitor.Run(init)
}

// await waits, after complete and before the command runs, until the janitor has understood.
// It may be called on nil.
func (s *stubs) await() error {
	if s == nil || s.janitor == nil {
		return nil
	}
	return s.janitor.Await()
}

// appeared ends the watch of names that must not be created, and reports
// whether any was. It may be called on nil.
func (s *stubs) appeared() bool { return s != nil && s.undo.Stop() }

// release removes the stubs, unless another sandbox needs them. It may be called on nil, and more
// than once.
func (s *stubs) release() {
	if s == nil {
		return
	}
	for _, stub := range s.held {
		stub.Release()
	}
	s.held = nil
	s.undo.Stop()
}

// releaseAhead releases the stubs before the server knows of the end, and leaves the janitor for later,
// which costs time. A janitor that removes names is let go of now: what the user makes from then on is
// the user's, and the launcher may still be killed. It may be called on nil.
func (s *stubs) releaseAhead() {
	if s != nil && s.undo != nil {
		s.remove()
		return
	}
	s.release()
}

// remove releases the stubs, and lets go of the janitor. It may be called on nil,
// and more than once.
func (s *stubs) remove() {
	s.release()
	if s != nil && s.janitor != nil {
		s.janitor.forget()
		s.janitor = nil
	}
}
