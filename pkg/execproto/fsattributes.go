package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

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
	MountPoint   bool // only in an answer to fs/getAttributes
}

// The kinds of Attributes. KindOther is a device, a FIFO or a socket.
const (
	KindFile      = "file"
	KindDirectory = "directory"
	KindSymlink   = "symlink"
	KindOther     = "other"
)

var fileKinds = []string{KindFile, KindDirectory, KindSymlink, KindOther}

func (a *Attributes) Fields(c *jsonwire.Codec) {
	jsonwire.Choice(c, "kind", need, &a.Kind, fileKinds)
	c.Uint64("size", need, &a.Size)
	c.Uint32("permissions", need, &a.Permissions)
	c.Int64("modifiedAtMs", need, &a.ModifiedAtMS)
	c.Text("target", orNull|omit, &a.Target)
	c.Bool("mountPoint", orNull|omit, &a.MountPoint)
}

// AppendJSON appends a.
func (a Attributes) AppendJSON(b []byte) []byte { return appendObject(b, &a) }

// NamedAttributes are the attributes of a name in a directory. IsLossy is as in
// DirectoryEntry.
type NamedAttributes struct {
	FileName string
	IsLossy  bool
	Attributes
}

func (a *NamedAttributes) Fields(c *jsonwire.Codec) {
	c.Text("fileName", need, &a.FileName)
	c.Bool("isLossy", orNull|omit, &a.IsLossy)
	a.Attributes.Fields(c)
}

// AppendJSON appends a.
func (a NamedAttributes) AppendJSON(b []byte) []byte { return appendObject(b, &a) }

// ListAttributesResult answers fs/listAttributes, sorted by name.
type ListAttributesResult struct {
	Entries []NamedAttributes
}

func (r *ListAttributesResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "entries", orNull, &r.Entries)
}

// AppendJSON appends r.
func (r ListAttributesResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// SetAttributesParams change the attributes of a file or directory; nil leaves one as
// it is.
type SetAttributesParams struct {
	Path         string
	Permissions  *uint32
	ModifiedAtMS *int64
	// FollowSymlinks: false refuses links on the way, too. A link at the end is always
	// refused.
	FollowSymlinks *bool
	Sandbox        json.RawMessage
}

func (p *SetAttributesParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	jsonwire.Optional(c, "permissions", orNull|omit, &p.Permissions, jsonwire.Uint32Value)
	jsonwire.Optional(c, "modifiedAtMs", orNull|omit, &p.ModifiedAtMS, jsonwire.Int64Value)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}
