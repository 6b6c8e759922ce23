package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// WatchMissingParams ask for a notification when one of the Missing paths may have
// been created, or Present may have changed (docs/spec/wire.md §5.8).
type WatchMissingParams struct {
	WatchID uint64
	Missing []string
	Present *string
}

func (p *WatchMissingParams) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &p.WatchID)
	c.Texts("missing", need, &p.Missing)
	jsonwire.Optional(c, "present", orNull, &p.Present, jsonwire.TextValue)
}

// WatchMissingResult answers fs/watchMissing.
type WatchMissingResult struct {
	Watching bool
}

func (r *WatchMissingResult) Fields(c *jsonwire.Codec) {
	c.Bool("watching", orNull, &r.Watching)
}

// AppendJSON appends r.
func (r WatchMissingResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// MissingChanged is fs/missingChanged, which ends a watch.
type MissingChanged struct {
	WatchID uint64
}

func (n *MissingChanged) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &n.WatchID)
}

// WatchParams ask for notifications of changes at a path and, with Recursive, below it
// (docs/spec/wire.md §5.13). The connection names the watch by WatchID.
type WatchParams struct {
	WatchID   uint64
	Path      string
	Recursive bool
	Sandbox   json.RawMessage
}

func (p *WatchParams) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &p.WatchID)
	c.Text("path", need, &p.Path)
	c.Bool("recursive", orNull, &p.Recursive)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// UnwatchParams end a watch.
type UnwatchParams struct {
	WatchID uint64
}

func (p *UnwatchParams) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &p.WatchID)
}

// The kinds of a WatchEvent.
const (
	WatchCreated    = "created"
	WatchModified   = "modified"
	WatchAttributes = "attributes"
	WatchRemoved    = "removed"
	WatchUnwatched  = "unwatched"
)

// WatchKinds are all kinds. A client ends a watch that reports another one, and keeps the connection.
var WatchKinds = []string{WatchCreated, WatchModified, WatchAttributes, WatchRemoved, WatchUnwatched}

// WatchEvent is one change. Path is a URI.
type WatchEvent struct {
	Path        string
	Kind        string // WatchCreated and so on
	IsDirectory bool
}

func (e *WatchEvent) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &e.Path)
	c.Text("kind", need, &e.Kind)
	c.Bool("isDirectory", orNull|omit, &e.IsDirectory)
}

// Changed is fs/changed. Seq counts the notifications of a watch from 1. Overflow
// means that changes were lost before the events of this one. Ended, if not empty, is
// the reason for the end of the watch.
type Changed struct {
	WatchID  uint64
	Seq      uint64
	Events   []WatchEvent
	Overflow bool
	Ended    string
}

func (n *Changed) Fields(c *jsonwire.Codec) {
	c.Uint64("watchId", need, &n.WatchID)
	c.Uint64("seq", need, &n.Seq)
	jsonwire.Structs(c, "events", orNull, &n.Events)
	c.Bool("overflow", orNull|omit, &n.Overflow)
	c.Text("ended", orNull|omit, &n.Ended)
}
