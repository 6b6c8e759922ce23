package watch

import (
	"errors"
	"strings"
)

// Kind is the kind of a change.
type Kind uint8

// The kinds of events.
const (
	// Created: the name is new, or refers to another file than before.
	Created Kind = iota + 1
	// Modified: the contents of the file have changed, or may have.
	Modified
	// Attributes: permissions, owner, times or the number of links have changed.
	Attributes
	// Removed: the name no longer exists: the file was removed or renamed.
	Removed
	// Unwatched: changes in this directory are not reported. It may not be readable, its file
	// system does not report changes, or it is already watched under another name (a bind mount).
	Unwatched
)

// Event is one change. Path is the path that was passed to OpenTree, followed by the names of
// directories and the changed name.
type Event struct {
	Path      string
	Kind      Kind
	Directory bool
}

// Batch has the changes since the previous batch.
type Batch struct {
	Events []Event
	// Overflow means that changes were lost, so any file may have changed. A program that has a
	// copy of the tree must read the whole tree again. Later changes are reported again.
	Overflow bool
	// Ended, if not "", is the reason why the watch has ended: this is its last batch.
	Ended string
}

// empty reports whether the batch is empty.
func (b *Batch) empty() bool { return len(b.Events) == 0 && !b.Overflow && b.Ended == "" }

// ErrSilent is the error for a path on a file system that does not report changes, such as /proc or
// a network file system.
var ErrSilent = errors.New("the file system does not report changes")

// ErrUnsupported is the error on systems other than Linux.
var ErrUnsupported = errors.New("watching files is not supported on this system")

// LimitError means that a limit on watches or directories is reached.
type LimitError struct{ text string }

func (e *LimitError) Error() string { return e.text }

// folder is a watched directory of a Tree.
type folder struct {
	parent  *folder // nil: the root
	name    string
	wd      int32
	folders map[string]*folder
}

// names appends the names that lead from the root to f.
func (f *folder) names(to []string) []string {
	if f.parent == nil {
		return to
	}
	return append(f.parent.names(to), f.name)
}

// path returns the path of a name in the directory, or of the directory itself.
func (f *folder) path(root, name string) string {
	parts := f.names(make([]string, 0, 8))
	if name != "" {
		parts = append(parts, name)
	}
	if len(parts) == 0 {
		return root
	}
	return strings.TrimSuffix(root, "/") + "/" + strings.Join(parts, "/")
}

// add adds an event, unless an event of the batch implies it.
func (c *collector) add(e Event) {
	if last, seen := c.last[e.Path]; seen && implied(c.batch.Events[last].Kind, e.Kind) {
		return
	}
	if c.last == nil {
		c.last = make(map[string]int)
	}
	c.last[e.Path] = len(c.batch.Events)
	c.bytes += len(e.Path)
	c.batch.Events = append(c.batch.Events, e)
}

// implied reports whether an event adds nothing to an earlier event about the same path in the
// batch. The receiver of the batch reads the file after both.
func implied(earlier, later Kind) bool {
	switch later {
	case Modified:
		return earlier == Created || earlier == Modified
	case Attributes:
		return earlier == Created || earlier == Attributes
	default:
		return earlier == later
	}
}

// collector makes a batch.
type collector struct {
	batch Batch
	last  map[string]int // the newest event of each path
	bytes int            // of the paths
}

func (c *collector) full() bool {
	return len(c.batch.Events) >= maxBatchEvents || c.bytes >= maxBatchBytes
}

// lose replaces the events of the batch by Overflow.
func (c *collector) lose() {
	c.batch.Events, c.batch.Overflow, c.last, c.bytes = nil, true, nil, 0
}
