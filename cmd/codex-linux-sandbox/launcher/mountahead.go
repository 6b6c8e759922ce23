package launcher

import (
	"slices"
	"unsafe"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// A view that is made before its command is known (prepare.go) is made in two parts: the early
// mounts ahead, and with the order the late ones: those that may need a placeholder, and masks of
// paths that only the order denies. The masks themselves are made ahead, but not mounted. In between
// the view may change.

// needsStub reports whether a mount may need a placeholder, which is made with the order.
func needsStub(m sandbox.Mount) bool { return m.Cover || m.Perhaps }

// isLate reports whether a mount is made with the order: it may need a placeholder, or the plan with
// which the view was begun does not have it.
func (m *mounter) isLate(mt sandbox.Mount) bool {
	return needsStub(mt) || !slices.ContainsFunc(m.first, mt.Equal)
}

func (m *mounter) isEarly(mt sandbox.Mount) bool { return !m.isLate(mt) }

// lateLast reports whether no other mount that follows a late one has to do with its target, so
// that the late ones can be made last.
func lateLast(mounts []sandbox.Mount, isLate func(sandbox.Mount) bool) bool {
	for i, m := range mounts {
		if isLate(m) && slices.ContainsFunc(mounts[i+1:], func(o sandbox.Mount) bool {
			return !isLate(o) && (within(o.Target, m.Target) || within(m.Target, o.Target))
		}) {
			return false
		}
	}
	return true
}

// canAdd reports whether the late mounts of a plan can be added to a view that was begun. None may have to come before an early
// one. Each mask must have been made, as the file system of which masks are made is hidden by now. And what needs
// no placeholder must be a mask in the files of the host: the view has its own /dev and /proc by now.
func (m *mounter) canAdd(mounts []sandbox.Mount) bool {
	return lateLast(mounts, m.isLate) && !m.lacksMask(mounts) && !slices.ContainsFunc(mounts, func(mt sandbox.Mount) bool {
		return m.isLate(mt) && !needsStub(mt) && (!isMask(mt) || within(mt.Target, "/dev") || within(mt.Target, "/proc"))
	})
}

// madeMask is a mask that is not mounted yet.
type madeMask struct {
	of    sandbox.Mount
	spare bool // for any path
	fd    register
}

// spareMasks are masks of a denied directory and of a denied file.
var spareMasks = []sandbox.Mount{{Kind: sandbox.EmptyDir, Target: "a denied directory"}, {Kind: sandbox.EmptyFile, Target: "a denied file"}}

// takeMask takes the mask that was made ahead for a mount; 0: there is none.
func (m *mounter) takeMask(mt *sandbox.Mount) (fd register) {
	i := indexMask(m.masks, mt)
	if i < 0 {
		return 0
	}
	fd = m.masks[i].fd
	m.masks = slices.Delete(m.masks, i, i+1)
	return fd
}

func indexMask(masks []madeMask, mt *sandbox.Mount) int {
	return slices.IndexFunc(masks, func(k madeMask) bool {
		return (k.spare || k.of.Target == mt.Target) && k.of.Kind == mt.Kind && k.of.Mode == mt.Mode && slices.Equal(k.of.Holes, mt.Holes)
	})
}

// lacksMask reports whether there is a late mount for which no mask was made ahead.
func (m *mounter) lacksMask(mounts []sandbox.Mount) bool {
	left := slices.Clone(m.masks)
	for _, mt := range mounts {
		if !m.isLate(mt) || !isMask(mt) {
			continue
		}
		i := indexMask(left, &mt)
		if i < 0 {
			return true
		}
		left = slices.Delete(left, i, i+1)
	}
	return false
}

// ahead appends what makes the view but for late mounts.
func (m *mounter) ahead() {
	m.first = slices.Clone(m.plan.Mounts) // placeholders change those of the plan
	m.host(m.isEarly)
	for i, mt := range m.plan.Mounts {
		if m.isEarly(mt) {
			m.mount(i)
		}
	}
	for _, mt := range m.plan.Mounts {
		if mt = mt.IfMissing(); needsStub(mt) && isMask(mt) {
			m.masks = append(m.masks, madeMask{of: mt, fd: m.cover(&mt)})
		}
	}
	for range m.spare {
		for _, mt := range spareMasks {
			m.masks = append(m.masks, madeMask{of: mt, spare: true, fd: m.cover(&mt)})
		}
	}
	m.hideCovers()
	m.makeProc()
}

// late appends the late mounts of the plan, for which there are masks. Spare masks that are left stay open until
// the init ends: the kernel waits for all processors (RCU) when it closes one, and the command gets none of them.
func (m *mounter) late() {
	m.keeping = false
	m.sources = make([]register, len(m.plan.Mounts))
	m.openSources(m.isLate)
	for i, mt := range m.plan.Mounts {
		if m.isLate(mt) {
			m.mount(i)
		}
	}
	for _, k := range m.masks {
		if !k.spare {
			m.close(k.fd)
		}
	}
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
