package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// ReadDirectoryParams list a directory. Attributes is supported by servers that
// announce ExtensionEntryAttributes: each entry then has attributes, and links to
// missing files are listed, too.
type ReadDirectoryParams struct {
	Path       string
	Attributes bool
	Sandbox    json.RawMessage
}

func (p *ReadDirectoryParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	c.Bool("attributes", orNull|omit, &p.Attributes)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// DirectoryEntry is one name in a directory. IsLossy means that the name is not UTF-8;
// FileName then contains U+FFFD in place of the invalid bytes. Attributes describe the
// name itself, and are set if the request asks for them.
type DirectoryEntry struct {
	FileName    string
	IsDirectory bool
	IsFile      bool
	IsLossy     bool
	Attributes  *Attributes
}

func (p *DirectoryEntry) Fields(c *jsonwire.Codec) {
	c.Text("fileName", orNull, &p.FileName)
	c.Bool("isDirectory", orNull, &p.IsDirectory)
	c.Bool("isFile", orNull, &p.IsFile)
	c.Bool("isLossy", orNull|omit, &p.IsLossy)
	jsonwire.Optional(c, "attributes", orNull|omit, &p.Attributes, jsonwire.StructValue)
}

// ReadDirectoryResult answers fs/readDirectory, sorted by name.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry
}

func (r *ReadDirectoryResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "entries", orNull, &r.Entries)
}

// AppendJSON appends r.
func (r ReadDirectoryResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// WalkOptions bound fs/walk. All but PruneHiddenDirectories and Attributes are required;
// a MaxDepth of 0 lists the root's children only. Attributes is as in
// ReadDirectoryParams.
type WalkOptions struct {
	MaxDepth                uint64
	MaxDirectories          uint64
	MaxEntries              uint64
	FollowDirectorySymlinks bool
	PruneHiddenDirectories  bool
	Attributes              bool
}

func (p *WalkOptions) Fields(c *jsonwire.Codec) {
	c.Uint64("maxDepth", need, &p.MaxDepth)
	c.Uint64("maxDirectories", need, &p.MaxDirectories)
	c.Uint64("maxEntries", need, &p.MaxEntries)
	c.Bool("followDirectorySymlinks", need, &p.FollowDirectorySymlinks)
	c.Bool("pruneHiddenDirectories", orNull|omit, &p.PruneHiddenDirectories)
	c.Bool("attributes", orNull|omit, &p.Attributes)
}

// WalkParams list a tree breadth-first.
type WalkParams struct {
	Path    string
	Options WalkOptions
	Sandbox json.RawMessage
}

func (p *WalkParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	c.Struct("options", need, &p.Options)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// WalkEntry is one entry that the walk has found; Kind is "directory" or "file". Attributes
// describe the name itself, and are set if the request asks for them.
type WalkEntry struct {
	Path       string
	Kind       string
	Attributes *Attributes
}

func (p *WalkEntry) Fields(c *jsonwire.Codec) {
	c.Text("path", orNull, &p.Path)
	c.Text("kind", orNull, &p.Kind)
	jsonwire.Optional(c, "attributes", orNull|omit, &p.Attributes, jsonwire.StructValue)
}

// WalkError is one directory that could not be listed.
type WalkError struct {
	Path    string
	Message string
}

func (p *WalkError) Fields(c *jsonwire.Codec) {
	c.Text("path", orNull, &p.Path)
	c.Text("message", orNull, &p.Message)
}

// WalkResult answers fs/walk. Truncated means that a limit ended the walk.
type WalkResult struct {
	Entries   []WalkEntry
	Errors    []WalkError
	Truncated bool
}

func (r *WalkResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "entries", orNull, &r.Entries)
	jsonwire.Structs(c, "errors", orNull, &r.Errors)
	c.Bool("truncated", orNull, &r.Truncated)
}

// AppendJSON appends r.
func (r WalkResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
