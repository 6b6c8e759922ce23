//go:build linux

package launcher

import (
	"slices"
	"unsafe"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// A view that is made before its command is known (prepare.go) is made in two parts: the early
// mounts ahead, and with the order those that may need a placeholder. In between it may change.

// isLate reports whether a mount may need a placeholder, which is made with the order.
func isLate(m sandbox.Mount) bool { return m.Cover || m.Perhaps }

func isEarly(m sandbox.Mount) bool { return !isLate(m) }

// lateLast reports whether no other mount that follows a late one has to do with its target, so
// that the late ones can be made last.
func lateLast(mounts []sandbox.Mount) bool {
	for i, m := range mounts {
		if isLate(m) && slices.ContainsFunc(mounts[i+1:], func(o sandbox.Mount) bool {
			return isEarly(o) && (within(o.Target, m.Target) || within(m.Target, o.Target))
		}) {
			return false
		}
	}
	return true
}

// ahead appends what makes the view but for late mounts.
func (m *mounter) ahead() {
	m.host(isEarly)
	for i, mt := range m.plan.Mounts {
		if isEarly(mt) {
			m.mount(i)
		}
	}
	if !m.masking {
		m.hideCovers()
		m.covers = 0
	}
	m.makeProc()
}

// late appends the late mounts of the plan, and hides what masks are made of.
func (m *mounter) late() {
	m.sources = make([]register, len(m.plan.Mounts))
	m.openSources(isLate)
	for i, mt := range m.plan.Mounts {
		if isLate(mt) {
			m.mount(i)
		}
	}
	m.hideCovers()
	m.close(m.root)
}

// remember notes on which mount a target of the plan is now.
func (m *mounter) remember(target string, fd register) {
	if !m.keeping || within(target, "/dev") && target != "/dev" {
		return
	}
	// Of several at one target the last is seen, and of two of which one is made, that one.
	i := slices.IndexFunc(m.kept, func(k keptMount) bool { return k.target == target })
	if i < 0 {
		i = len(m.kept)
		m.kept = append(m.kept, keptMount{target, &hold(m.program, make([]mounted, 1))[0]})
	}
	m.statx(target, fd, &m.kept[i].mounted.was)
}

func (m *mounter) statx(name string, fd register, to *unix.Statx_t) *step {
	return m.do("look at", name, unix.SYS_STATX, fd.arg(), m.text(""), val(unix.AT_EMPTY_PATH),
		val(unix.STATX_INO|unix.STATX_MNT_ID), arg{value: uintptr(unsafe.Pointer(to))})
}

// checkKept appends what fails unless each mount that was remembered is still at its target.
func (m *mounter) checkKept() {
	for _, k := range m.kept {
		at := m.open("open", m.root.arg(), relative(k.target))
		m.statx(k.target, at, &k.mounted.is).kept = k.mounted
		m.close(at)
	}
}

// keptMount is a mount of a view that is used later.
type keptMount struct {
	target  string
	mounted *mounted
}
