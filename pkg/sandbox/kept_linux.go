package sandbox

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"slices"

	"codex.internal/pkg/sandbox/permissions"
)

// Kept is a plan, and all that the file system answered while it was made. A launcher that makes a
// sandbox ahead keeps the plan: with the order it asks the file system all of it again. If the
// answers are the same, Make would make the same plan, which takes 0.3 ms more.
//
// One goroutine uses a Kept.
type Kept struct {
	plan  *Plan
	seen  *snapshot
	paths []string // of its looks, parents first
	host  *notedHost
}

// MakeKept is Make for the host's file system. The Kept is nil if the plan depends on what is
// not compared: on the entries of directories, or on an error.
func MakeKept(profile permissions.Profile, scope permissions.Scope) (*Plan, *Kept, error) {
	k := &Kept{}
	plan, err := onSnapshot(HostView{}, func(s *snapshot) (*Plan, error) {
		k.seen, k.host = s, &notedHost{}
		return planOn(s, k.host, profile, scope, false, false)
	})
	if err != nil {
		return nil, nil, err
	}
	if k.host.unknown || k.seen.listed || !k.seen.known() {
		return plan, nil, nil
	}
	k.plan = plan.clone()
	k.paths = slices.SortedFunc(maps.Keys(k.seen.looks), func(a, b string) int {
		return cmp.Or(cmp.Compare(depth(a), depth(b)), cmp.Compare(a, b))
	})
	return plan, k, nil
}

// Again returns a copy of the plan, or nil unless the file system answers as it did when that was made. The
// caller knows that nothing was mounted or unmounted since. The questions are those of Make: each
// directory is opened in the one above, and in the end all answers are compared once more.
func (k *Kept) Again() *Plan {
	view, done := HostView{}.Walk()
	defer done()
	for _, name := range k.paths {
		if info, err := view.Lstat(name); err != nil || !alike(info, k.seen.looks[name].info) {
			return nil
		}
	}
	for name, to := range k.seen.links {
		if now, err := view.Readlink(name); err != nil || now != to {
			return nil
		}
	}
	for name, t := range k.seen.texts {
		if data, err := view.ReadFile(name, t.limit); err != nil || !bytes.Equal(data, t.data) {
			return nil
		}
	}
	if slices.ContainsFunc(k.host.asked, func(same func() bool) bool { return !same() }) {
		return nil
	}
	if k.seen.check(HostView{}) != nil {
		return nil
	}
	return k.plan.clone()
}

// known reports whether all answers of a snapshot are ones that can be compared.
func (s *snapshot) known() bool {
	for _, l := range s.looks {
		if l.err != nil {
			return false
		}
	}
	for _, t := range s.texts {
		if t.err != nil {
			return false
		}
	}
	return true
}

// alike reports whether a plan cannot tell two answers from each other. Of a size it sees only whether it is 0.
func alike(a, b permissions.Info) bool {
	a.Size, b.Size = min(a.Size, 1), min(b.Size, 1)
	return a == b
}

// clone copies what a launcher changes in a plan: its mounts, and the names that it undoes.
func (plan *Plan) clone() *Plan {
	c := *plan
	c.Mounts, c.Undo, c.Absent = slices.Clone(plan.Mounts), slices.Clone(plan.Undo), slices.Clone(plan.Absent)
	return &c
}

// notedHost is the host's file system for what a planner asks of it besides its snapshot. It notes
// the answers.
type notedHost struct {
	HostView
	asked   []func() bool // each reports whether the answer is still the same
	unknown bool          // there were answers that are not compared
}

// Lstat implements permissions.View.
func (n *notedHost) Lstat(name string) (permissions.Info, error) {
	was, err := n.HostView.Lstat(name)
	n.asked = append(n.asked, func() bool {
		now, failed := n.HostView.Lstat(name)
		return (failed == nil) == (err == nil) && alike(now, was)
	})
	return was, err
}

// ReadDir implements permissions.View.
func (n *notedHost) ReadDir(name string, each func(name string, t permissions.FileType) error) error {
	n.unknown = true
	return n.HostView.ReadDir(name, each)
}

// CanReplace is that of HostView.
func (n *notedHost) CanReplace(name string) bool {
	return n.note(func() bool { return n.HostView.CanReplace(name) })
}

// IsPlaceholder is that of HostView.
func (n *notedHost) IsPlaceholder(name string) bool {
	return n.note(func() bool { return n.HostView.IsPlaceholder(name) })
}

func (n *notedHost) note(ask func() bool) bool {
	was := ask()
	n.asked = append(n.asked, func() bool { return ask() == was })
	return was
}

// KernelMounts is that of HostView. Which mounts there are does not change while a plan is kept,
// but whether the user can look at one may.
func (n *notedHost) KernelMounts() ([]string, error) {
	text, err := mountinfo("self")
	if err != nil {
		n.unknown = true
		return nil, fmt.Errorf("find the file systems of the kernel: %w", err)
	}
	return kernelMounts(string(text), n)
}
