package execproto

import "encoding/json"

// Attributes answer fs/getAttributes. They describe a name itself: of a link, not of
// its target. ModifiedAtMS is milliseconds since 1970, 0 if it is earlier; Size is in
// bytes; Permissions are the nine permission bits. Target is where a link leads, and
// is absent if that is not UTF-8.
type Attributes struct {
	Kind         string // KindFile and so on
	Size         uint64
	Permissions  uint32
	ModifiedAtMS int64
	Target       string
}

// The kinds of Attributes. KindOther is a device, a FIFO or a socket.
const (
	KindFile      = "file"
	KindDirectory = "directory"
	KindSymlink   = "symlink"
	KindOther     = "other"
)

func (a *Attributes) fields(c *codec) {
	text(c, "kind", need, &a.Kind)
	uint64s(c, "size", need, &a.Size)
	uint32s(c, "permissions", need, &a.Permissions)
	int64s(c, "modifiedAtMs", need, &a.ModifiedAtMS)
	text(c, "target", orNull|omit, &a.Target)
}

// AppendJSON appends a.
func (a Attributes) AppendJSON(b []byte) []byte { return appendObject(b, &a) }

// NamedAttributes are those of a name in a directory. IsLossy is as in DirectoryEntry.
type NamedAttributes struct {
	FileName string
	IsLossy  bool
	Attributes
}

func (a *NamedAttributes) fields(c *codec) {
	text(c, "fileName", need, &a.FileName)
	boolean(c, "isLossy", orNull|omit, &a.IsLossy)
	a.Attributes.fields(c)
}

// AppendJSON appends a.
func (a NamedAttributes) AppendJSON(b []byte) []byte { return appendObject(b, &a) }

// ListAttributesResult answers fs/listAttributes, sorted by name.
type ListAttributesResult struct {
	Entries []NamedAttributes
}

func (r *ListAttributesResult) fields(c *codec) {
	objects(c, "entries", orNull, &r.Entries)
}

// AppendJSON appends r.
func (r ListAttributesResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// SetAttributesParams change the attributes of a file or directory; nil leaves one as
// it is.
type SetAttributesParams struct {
	Path         string
	Permissions  *uint32
	ModifiedAtMS *int64
	// FollowSymlinks: false refuses links on the way too. One at the end always is.
	FollowSymlinks *bool
	Sandbox        json.RawMessage
}

func (p *SetAttributesParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	optional(c, "permissions", orNull|omit, &p.Permissions, uint32Value)
	optional(c, "modifiedAtMs", orNull|omit, &p.ModifiedAtMS, int64Value)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}
