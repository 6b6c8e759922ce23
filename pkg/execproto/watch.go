package execproto

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
