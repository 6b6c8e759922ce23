package launcher

import (
	"errors"
	"fmt"
	"slices"

	"codex.internal/pkg/sandbox/placeholders"
	"codex.internal/pkg/sandbox/plan"
)

// placed are the placeholders that the plan's masks are mounted on, and the names that must be
// removed when they appear. The launcher removes both when the sandbox has ended. If the launcher
// is killed, the janitor removes them.
type placed struct {
	made    []*placeholders.Placeholder
	undo    *placeholders.Undo
	janitor *janitor // nil: no placeholder or name may have to be removed
}

// makePlaceholders creates or joins the placeholders of the plan. If the user has created a file at
// the path of a mask meanwhile, it drops the mask. A backend without mounts needs no placeholders.
func (l *launch) makePlaceholders(mounts bool) (*placed, error) {
	p := &placed{}
	wanted := mounts && slices.ContainsFunc(l.plan.Mounts, func(m plan.Mount) bool { return m.Placeholder || m.Perhaps })
	if !wanted && len(l.plan.Undo) == 0 {
		return p, nil
	}
	var masks []plan.Mount
	if wanted {
		masks = l.plan.Mounts
	}
	opened := make([]*placeholders.Placeholder, len(masks))
	err := l.announceAndMake(p, masks, opened)
	l.plan.Mounts = slices.DeleteFunc(l.plan.Mounts, func(m plan.Mount) bool { return m.Kind == 0 })
	if err != nil {
		for _, placeholder := range opened {
			placeholder.Close()
		}
		p.close()
		return nil, ifAppeared(err)
	}
	return p, nil
}

// announceAndMake announces each placeholder to the janitor before it creates it, because the
// launcher may be killed at any moment.
func (l *launch) announceAndMake(p *placed, mounts []plan.Mount, opened []*placeholders.Placeholder) (err error) {
	for i := range mounts {
		if m := &mounts[i]; m.Placeholder || m.Perhaps {
			if opened[i], err = placeholders.Open(m); err != nil {
				return err
			}
		}
	}
	for i, placeholder := range opened {
		if placeholder == nil {
			continue
		}
		if err := p.connectJanitor(l); err != nil {
			return err
		}
		if err := p.janitor.Placeholder(i, placeholder); err != nil {
			return err
		}
	}
	if err := l.makeOrJoin(p, mounts, opened); err != nil {
		return err
	}
	if p.undo, err = placeholders.OpenUndo(l.plan.Undo); err != nil || p.undo == nil {
		return err
	}
	if err := p.connectJanitor(l); err != nil {
		return err
	}
	for _, r := range p.undo.Names() {
		if err := p.janitor.Name(r); err != nil {
			return err
		}
	}
	return nil
}

// connectJanitor connects the placeholders to the launcher's janitor, unless they are connected already.
func (p *placed) connectJanitor(l *launch) error {
	if p.janitor != nil {
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
	p.janitor = l.janitor
	return nil
}

// makeOrJoin creates or joins the placeholders that were opened for mounts, and removes them from
// the list.
func (l *launch) makeOrJoin(p *placed, mounts []plan.Mount, opened []*placeholders.Placeholder) error {
	for i := range mounts {
		m := &mounts[i]
		if !m.Placeholder && !m.Perhaps {
			continue
		}
		placeholder, err := opened[i], error(nil)
		if opened[i] = nil; placeholder != nil {
			placeholder, err = placeholder.Hold(m, func(fd int) error { return p.janitor.Hold(i, fd) })
		}
		if errors.Is(err, placeholders.ErrNotNeeded) {
			if m.Kind != plan.BindReadOnly {
				m.Kind = 0
			}
			continue
		}
		var unmasked *placeholders.Unmasked
		if errors.As(err, &unmasked) {
			l.plan.Undo = append(l.plan.Undo, unmasked.UndoName)
			if err = nil; unmasked.NoMask {
				m.Kind = 0
				continue
			}
		}
		if err != nil {
			return err
		}
		switch {
		case placeholder != nil:
			p.made = append(p.made, placeholder)
			// When the view is built, only the placeholder may be at this path.
			m.File, m.ID = !placeholder.IsDir(), placeholder.ID()
			if m.Kind != plan.BindReadOnly {
				m.Kind = plan.EmptyDir
				if m.File {
					m.Kind = plan.EmptyFile
				}
			}
		case m.Placeholder && m.Kind != plan.BindReadOnly:
			return &changed{fmt.Errorf("cannot make the sandbox: %s was created while the sandbox was being prepared", m.Target)}
		}
	}
	return nil
}

// ifAppeared returns a *changed, which leads to a new plan, if the error means that a file was moved.
func ifAppeared(err error) error {
	if errors.Is(err, plan.ErrAppeared) {
		return &changed{err}
	}
	return err
}

// commit tells the janitor that the announcements are complete. It names the process inside whose
// end means that all processes in the sandbox have ended. It may be called on nil.
func (p *placed) commit(init int) error {
	if p == nil || p.janitor == nil {
		return nil
	}
	p.janitor.told = true
	return p.janitor.Run(init)
}

// awaitJanitor waits until the janitor has processed the announcements. It must be called after
// commit and before the command runs. It may be called on nil.
func (p *placed) awaitJanitor() error {
	if p == nil || p.janitor == nil {
		return nil
	}
	return p.janitor.Await()
}

// stopWatch ends the watch for names that must not be created, and reports whether any was created.
// It may be called on nil.
func (p *placed) stopWatch() (appeared bool) { return p != nil && p.undo.Stop() }

// remove removes the placeholders, unless another sandbox needs them. It may be called on nil, and more
// than once.
func (p *placed) remove() {
	if p == nil {
		return
	}
	for _, placeholder := range p.made {
		placeholder.Release()
	}
	p.made = nil
	p.undo.Stop()
}

// removeBeforeReport removes the placeholders before the server is informed of the end of the command. The janitor
// is released later, because that takes time. But a janitor that removes names is released now: files that the
// user creates from then on must stay, even if the launcher is killed. It may be called on nil.
func (p *placed) removeBeforeReport() {
	if p != nil && p.undo != nil {
		p.close()
		return
	}
	p.remove()
}

// close removes the placeholders, and releases the janitor. It may be called on nil,
// and more than once.
func (p *placed) close() {
	p.remove()
	if p != nil && p.janitor != nil {
		p.janitor.forget()
		p.janitor = nil
	}
}
