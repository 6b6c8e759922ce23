package launcher

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox/bwrap"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// noSize ends the error of versions of bwrap before 0.7.0. They are started again without
// the option. Asking every bwrap for its options first took 1.5 ms of each start.
const noSize = "Unknown option --size"

// bwrapFailed returns the error of a bwrap that has started no second stage. For a version
// that does not know an option, the error means that bwrap must be started again without
// it.
func (w *wrapped) bwrapFailed(said []byte) error {
	err := fmt.Errorf("bwrap failed: %s", said)
	if !w.l.unsized && bytes.HasSuffix(said, []byte(noSize)) {
		w.l.unsized = true
		return &changed{err}
	}
	return w.unlessMoved(err, said)
}

// notThere ends bwrap's error for a missing path.
const notThere = ": No such file or directory"

// unlessMoved returns a *changed if a file of the plan was moved or removed since bwrap was started, so that the plan
// is made again, and otherwise an *unavailable. Nothing has run. Scenario: two users share a workspace, and the
// placeholder for .agents of one's sandbox is removed before the other's bwrap binds it. said is bwrap's own error,
// which names the path. Comparing inode numbers is not enough, because another placeholder with the same number may be
// there by now.
func (w *wrapped) unlessMoved(err error, said []byte) error {
	binds, gone := bwrap.Binds(w.l.plan)
	if gone != nil || !bytes.HasPrefix(w.binds, binds) || strings.HasSuffix(err.Error(), bwrap.TryAgain) ||
		slices.ContainsFunc(w.l.plan.Absent, func(name string) bool { return unix.Access(name, unix.F_OK) == nil }) ||
		slices.ContainsFunc(w.l.plan.Mounts, func(m plan.Mount) bool { return bytes.HasSuffix(said, []byte(m.Target+notThere)) }) {
		return &changed{err}
	}
	return &unavailable{err}
}
