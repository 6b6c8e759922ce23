package execproto

import "encoding/json"

// ReadDirectoryParams list a directory. Attributes is known to servers that announce
// ExtensionEntryAttributes: each entry has attributes, and links that lead nowhere are
// listed, too.
type ReadDirectoryParams struct {
	Path       string
	Attributes bool
	Sandbox    json.RawMessage
}

func (p *ReadDirectoryParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	boolean(c, "attributes", orNull|omit, &p.Attributes)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// DirectoryEntry is one name in a directory. IsLossy says that the name is
// not UTF-8 and that FileName holds U+FFFD in place of the odd bytes. Attributes, of the
// name itself, come if the request asks for them.
type DirectoryEntry struct {
	FileName    string
	IsDirectory bool
	IsFile      bool
	IsLossy     bool
	Attributes  *Attributes
}

func (p *DirectoryEntry) fields(c *codec) {
	text(c, "fileName", orNull, &p.FileName)
	boolean(c, "isDirectory", orNull, &p.IsDirectory)
	boolean(c, "isFile", orNull, &p.IsFile)
	boolean(c, "isLossy", orNull|omit, &p.IsLossy)
	optional(c, "attributes", orNull|omit, &p.Attributes, objectValue)
}

// ReadDirectoryResult answers fs/readDirectory, sorted by name.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry
}

func (r *ReadDirectoryResult) fields(c *codec) {
	objects(c, "entries", orNull, &r.Entries)
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

func (p *WalkOptions) fields(c *codec) {
	uint64s(c, "maxDepth", need, &p.MaxDepth)
	uint64s(c, "maxDirectories", need, &p.MaxDirectories)
	uint64s(c, "maxEntries", need, &p.MaxEntries)
	boolean(c, "followDirectorySymlinks", need, &p.FollowDirectorySymlinks)
	boolean(c, "pruneHiddenDirectories", orNull|omit, &p.PruneHiddenDirectories)
	boolean(c, "attributes", orNull|omit, &p.Attributes)
}

// WalkParams list a tree breadth-first.
type WalkParams struct {
	Path    string
	Options WalkOptions
	Sandbox json.RawMessage
}

func (p *WalkParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	nested(c, "options", need, &p.Options)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// WalkEntry is one thing found; Kind is "directory" or "file". Attributes, of the name
// itself, come if the request asks for them.
type WalkEntry struct {
	Path       string
	Kind       string
	Attributes *Attributes
}

func (p *WalkEntry) fields(c *codec) {
	text(c, "path", orNull, &p.Path)
	text(c, "kind", orNull, &p.Kind)
	optional(c, "attributes", orNull|omit, &p.Attributes, objectValue)
}

// WalkError is one directory that could not be listed.
type WalkError struct {
	Path    string
	Message string
}

func (p *WalkError) fields(c *codec) {
	text(c, "path", orNull, &p.Path)
	text(c, "message", orNull, &p.Message)
}

// WalkResult answers fs/walk. Truncated says that a limit ended it.
type WalkResult struct {
	Entries   []WalkEntry
	Errors    []WalkError
	Truncated bool
}

func (r *WalkResult) fields(c *codec) {
	objects(c, "entries", orNull, &r.Entries)
	objects(c, "errors", orNull, &r.Errors)
	boolean(c, "truncated", orNull, &r.Truncated)
}

// AppendJSON appends r.
func (r WalkResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
