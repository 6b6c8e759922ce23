package launcher

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// noSize is what versions of bwrap before 0.7.0 say. They are started again
// without the option: to ask every bwrap for its options first took 1.5 ms of
// each start.
const noSize = "Unknown option --size"

// bwrapFailed returns the error of a bwrap that has started no second stage. A version that
// does not know an option is to be started again without it.
func (w *wrapped) bwrapFailed(said []byte) error {
	err := fmt.Errorf("bwrap failed: %s", said)
	if !w.l.unsized && bytes.HasSuffix(said, []byte(noSize)) {
		w.l.unsized = true
		return &changed{err}
	}
	return w.unlessMoved(err, said)
}

// notThere ends what bwrap says of a path that is not there.
const notThere = ": No such file or directory"

// unlessMoved returns an error that has the plan made again if what it names has moved since bwrap was started, and
// else err as one of a backend that does not work. Nothing has run. Scenario: two users have a workspace, and the
// placeholder for .agents that one's sandbox leaves vanishes before the other's bwrap shows it. said is what bwrap
// says of itself: another placeholder may be there by now, with the same number.
func (w *wrapped) unlessMoved(err error, said []byte) error {
	binds, gone := w.l.plan.Binds()
	if gone != nil || !bytes.HasPrefix(w.binds, binds) || strings.HasSuffix(err.Error(), sandbox.TryAgain) ||
		slices.ContainsFunc(w.l.plan.Absent, func(name string) bool { return unix.Access(name, unix.F_OK) == nil }) ||
		slices.ContainsFunc(w.l.plan.Mounts, func(m sandbox.Mount) bool { return bytes.HasSuffix(said, []byte(m.Target+notThere)) }) {
		return &changed{err}
	}
	return &unavailable{err}
}
