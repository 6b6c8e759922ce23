package execproto

import "encoding/json"

// WatchMissingParams ask to be told when one of the Missing paths may have come
// into being, or Present may have changed (docs/spec/wire.md §5.8).
type WatchMissingParams struct {
	WatchID uint64
	Missing []string
	Present *string
}

func (p *WatchMissingParams) fields(c *codec) {
	uint64s(c, "watchId", need, &p.WatchID)
	texts(c, "missing", need, &p.Missing)
	optional(c, "present", orNull, &p.Present, textValue)
}

// WatchMissingResult answers fs/watchMissing.
type WatchMissingResult struct {
	Watching bool
}

func (r *WatchMissingResult) fields(c *codec) {
	boolean(c, "watching", orNull, &r.Watching)
}

// AppendJSON appends r.
func (r WatchMissingResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// MissingChanged is fs/missingChanged, which ends a watch.
type MissingChanged struct {
	WatchID uint64
}

func (n *MissingChanged) fields(c *codec) {
	uint64s(c, "watchId", need, &n.WatchID)
}

// WatchParams ask to be told what changes at a path and, with Recursive, below it
// (docs/spec/wire.md §5.13). The connection names the watch by WatchID.
type WatchParams struct {
	WatchID   uint64
	Path      string
	Recursive bool
	Sandbox   json.RawMessage
}

func (p *WatchParams) fields(c *codec) {
	uint64s(c, "watchId", need, &p.WatchID)
	text(c, "path", need, &p.Path)
	boolean(c, "recursive", orNull, &p.Recursive)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// UnwatchParams end a watch.
type UnwatchParams struct {
	WatchID uint64
}

func (p *UnwatchParams) fields(c *codec) {
	uint64s(c, "watchId", need, &p.WatchID)
}

// The kinds of a WatchEvent.
const (
	WatchCreated    = "created"
	WatchModified   = "modified"
	WatchAttributes = "attributes"
	WatchRemoved    = "removed"
	WatchUnwatched  = "unwatched"
)

// WatchEvent is one change. Path is a URI.
type WatchEvent struct {
	Path        string
	Kind        string // WatchCreated and so on
	IsDirectory bool
}

func (e *WatchEvent) fields(c *codec) {
	text(c, "path", need, &e.Path)
	text(c, "kind", need, &e.Kind)
	boolean(c, "isDirectory", orNull|omit, &e.IsDirectory)
}

// Changed is fs/changed. Seq counts those of a watch from 1. Overflow says that
// changes were lost before the events of this one. Ended, if it is not empty, says why
// the watch has ended.
type Changed struct {
	WatchID  uint64
	Seq      uint64
	Events   []WatchEvent
	Overflow bool
	Ended    string
}

func (n *Changed) fields(c *codec) {
	uint64s(c, "watchId", need, &n.WatchID)
	uint64s(c, "seq", need, &n.Seq)
	objects(c, "events", orNull, &n.Events)
	boolean(c, "overflow", orNull|omit, &n.Overflow)
	text(c, "ended", orNull|omit, &n.Ended)
}

// AppendParams appends n without the envelope of a notification, as the file helper
// tells it.
func (n *Changed) AppendParams(b []byte) []byte { return appendObject(b, n) }
