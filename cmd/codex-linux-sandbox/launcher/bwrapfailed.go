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

// noSize is the end of the error of bwrap versions before 0.7.0 for --size. The launcher starts them again
// without the option. The alternative, to ask every bwrap for its options first, took 1.5 ms of each start.
const noSize = "Unknown option --size"

// bwrapFailed returns the error of a bwrap that has started no second stage. If the version does
// not know an option, the error makes the launcher start bwrap again without it.
func (w *wrapped) bwrapFailed(said []byte) error {
	err := fmt.Errorf("bwrap failed: %s", said)
	if !w.l.unsized && bytes.HasSuffix(said, []byte(noSize)) {
		w.l.unsized = true
		return &changed{err}
	}
	if bytes.Contains(said, []byte("Can't chdir to "+w.l.commandCwd+":")) && hidden(w.l.commandCwd) {
		err = hiddenDirectory(w.l.commandCwd)
	}
	return w.unlessMoved(err, said)
}

// notThere is the end of bwrap's error for a missing path.
const notThere = ": No such file or directory"

// unlessMoved returns a *changed if a file of the plan was moved or removed since bwrap was started. The launcher then
// makes a new plan. Otherwise it returns an *unavailable. Nothing has run. Scenario: two users share a workspace, and
// the placeholder for .agents of one user's sandbox is removed before the other user's bwrap binds it. said is bwrap's
// own error, which names the path. Comparing inode numbers is not enough, because another placeholder with the same
// number may be at the path by now.
func (w *wrapped) unlessMoved(err error, said []byte) error {
	binds, gone := bwrap.Binds(w.l.plan)
	if gone != nil || !bytes.HasPrefix(w.binds, binds) || strings.HasSuffix(err.Error(), bwrap.TryAgain) ||
		slices.ContainsFunc(w.l.plan.Absent, func(name string) bool { return unix.Access(name, unix.F_OK) == nil }) ||
		slices.ContainsFunc(w.l.plan.Mounts, func(m plan.Mount) bool { return bytes.HasSuffix(said, []byte(m.Target+notThere)) }) {
		return &changed{err}
	}
	return &unavailable{err}
}
