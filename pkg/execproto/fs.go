package execproto

import "encoding/json"

// PathParams are one path: canonicalize, getAttributes and listAttributes.
type PathParams struct {
	Path    string
	Sandbox json.RawMessage
}

func (p *PathParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

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

// LinkPathParams are one path and whether links on it are followed (nil:
// yes): readFile and getMetadata.
type LinkPathParams struct {
	Path           string
	FollowSymlinks *bool
	Sandbox        json.RawMessage
}

func (p *LinkPathParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// ReadFileResult answers fs/readFile.
type ReadFileResult struct {
	DataBase64 []byte
}

func (r *ReadFileResult) fields(c *codec) {
	base64s(c, "dataBase64", need, &r.DataBase64)
}

// AppendJSON appends r.
func (r ReadFileResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// OpenMode says what fs/open is for.
type OpenMode string

// The modes of fs/open.
const (
	OpenRead    OpenMode = "read"
	OpenReplace OpenMode = "replace"
)

var openModes = []OpenMode{OpenRead, OpenReplace} // the default first

// OpenParams open a file under a handle of the client's choice, at most
// MaxHandleIDBytes long. Atomic, with mode replace, writes beside the target
// and renames on close.
type OpenParams struct {
	HandleID string
	Path     string
	Mode     OpenMode
	Atomic   bool
	// FollowSymlinks, with mode replace: false refuses links anywhere on the path.
	FollowSymlinks *bool
	// Permissions are those of a new file, less the umask; nil: 0666.
	Permissions *uint32
	Sandbox     json.RawMessage
}

func (p *OpenParams) fields(c *codec) {
	text(c, "handleId", need, &p.HandleID)
	text(c, "path", need, &p.Path)
	choice(c, "mode", orNull|omit, &p.Mode, openModes)
	boolean(c, "atomic", orNull|omit, &p.Atomic)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	optional(c, "permissions", orNull|omit, &p.Permissions, uint32Value)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// OpenResult answers fs/open.
type OpenResult struct {
	HandleID string
}

func (r *OpenResult) fields(c *codec) {
	text(c, "handleId", orNull, &r.HandleID)
}

// AppendJSON appends r.
func (r OpenResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// ReadBlockParams read Len bytes (1 to MaxBlockBytes) at Offset.
type ReadBlockParams struct {
	HandleID string
	Offset   uint64
	Len      uint64
}

func (p *ReadBlockParams) fields(c *codec) {
	text(c, "handleId", need, &p.HandleID)
	uint64s(c, "offset", need, &p.Offset)
	uint64s(c, "len", need, &p.Len)
}

// ReadBlockResult answers fs/readBlock; EOF when fewer than Len bytes came.
type ReadBlockResult struct {
	Chunk []byte
	EOF   bool
}

func (r *ReadBlockResult) fields(c *codec) {
	base64s(c, "chunk", need, &r.Chunk)
	boolean(c, "eof", need, &r.EOF)
}

// AppendJSON appends r.
func (r ReadBlockResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// WriteBlockParams write Chunk at Offset of a handle opened with replace.
type WriteBlockParams struct {
	HandleID string
	Offset   uint64
	Chunk    []byte
}

func (p *WriteBlockParams) fields(c *codec) {
	text(c, "handleId", need, &p.HandleID)
	uint64s(c, "offset", need, &p.Offset)
	base64s(c, "chunk", need, &p.Chunk)
}

// HandleParams name one handle: fs/close.
type HandleParams struct {
	HandleID string
}

func (p *HandleParams) fields(c *codec) {
	text(c, "handleId", need, &p.HandleID)
}

// Base64Text is the base64 text of data, which the user of the type decodes.
type Base64Text []byte

// WriteFileParams create or truncate a file. DataBase64 stays undecoded because
// bad base64 is the file system's error here, not a params error
// (docs/spec/wire.md §5.3); the decoder lets it alias the message, so that it
// can be decoded in place.
type WriteFileParams struct {
	Path           string
	DataBase64     Base64Text
	FollowSymlinks *bool
	Atomic         bool    // as in OpenParams
	Permissions    *uint32 // as in OpenParams
	Sandbox        json.RawMessage
}

func (p *WriteFileParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	base64Text(c, "dataBase64", need, &p.DataBase64)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	boolean(c, "atomic", orNull|omit, &p.Atomic)
	optional(c, "permissions", orNull|omit, &p.Permissions, uint32Value)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// CreateDirectoryParams create a directory, with its parents unless
// Recursive is false.
type CreateDirectoryParams struct {
	Path           string
	Recursive      *bool
	FollowSymlinks *bool
	Permissions    *uint32 // of a new directory, less the umask; nil: 0777
	Sandbox        json.RawMessage
}

func (p *CreateDirectoryParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	optional(c, "recursive", orNull, &p.Recursive, booleanValue)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	optional(c, "permissions", orNull|omit, &p.Permissions, uint32Value)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// Metadata answers fs/getMetadata: it describes the target of a path, but IsSymlink
// says whether the path itself is a link. Times are milliseconds since 1970, 0 if
// unknown; Size is in bytes.
type Metadata struct {
	IsDirectory  bool
	IsFile       bool
	IsSymlink    bool
	Size         uint64
	CreatedAtMS  int64
	ModifiedAtMS int64
}

func (p *Metadata) fields(c *codec) {
	boolean(c, "isDirectory", orNull, &p.IsDirectory)
	boolean(c, "isFile", orNull, &p.IsFile)
	boolean(c, "isSymlink", orNull, &p.IsSymlink)
	uint64s(c, "size", orNull, &p.Size)
	int64s(c, "createdAtMs", orNull, &p.CreatedAtMS)
	int64s(c, "modifiedAtMs", orNull, &p.ModifiedAtMS)
}

// AppendJSON appends p.
func (p Metadata) AppendJSON(b []byte) []byte { return appendObject(b, &p) }

// PathResult answers fs/canonicalize with a `file:` URI.
type PathResult struct {
	Path string
}

func (r *PathResult) fields(c *codec) {
	text(c, "path", orNull, &r.Path)
}

// AppendJSON appends r.
func (r PathResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

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

// RemoveParams remove a file, link or directory. Recursive and Force default
// to true; with Force a missing path is no error. RemoveLink is known to servers that
// announce ExtensionRemoveLink: with FollowSymlinks false, a link at the end of Path is
// removed itself in place of being refused.
type RemoveParams struct {
	Path           string
	Recursive      *bool
	Force          *bool
	FollowSymlinks *bool
	RemoveLink     bool
	Sandbox        json.RawMessage
}

func (p *RemoveParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	optional(c, "recursive", orNull, &p.Recursive, booleanValue)
	optional(c, "force", orNull, &p.Force, booleanValue)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	boolean(c, "removeLink", orNull|omit, &p.RemoveLink)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// CopyParams copy a file, link or (with Recursive) directory.
type CopyParams struct {
	SourcePath      string
	DestinationPath string
	Recursive       bool
	Sandbox         json.RawMessage
}

func (p *CopyParams) fields(c *codec) {
	text(c, "sourcePath", need, &p.SourcePath)
	text(c, "destinationPath", need, &p.DestinationPath)
	boolean(c, "recursive", need, &p.Recursive)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// CopyResult answers fs/copy. LeftOut is set if the source was a directory with
// files that cannot be copied: everything else was copied.
type CopyResult struct{ LeftOut *LeftOut }

func (r *CopyResult) fields(c *codec) {
	optional(c, "leftOut", orNull|omit, &r.LeftOut, objectValue)
}

// AppendJSON appends r.
func (r CopyResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// LeftOut says how many pipes, sockets and devices a copy left out. Paths has the
// URIs of the first of them.
type LeftOut struct {
	Count uint64
	Paths []string
}

func (l *LeftOut) fields(c *codec) {
	uint64s(c, "count", need, &l.Count)
	texts(c, "paths", need, &l.Paths)
}

// RenameParams rename a file, link or directory. An existing destination is an
// error unless Overwrite is true.
type RenameParams struct {
	SourcePath      string
	DestinationPath string
	Overwrite       bool
	Sandbox         json.RawMessage
}

func (p *RenameParams) fields(c *codec) {
	text(c, "sourcePath", need, &p.SourcePath)
	text(c, "destinationPath", need, &p.DestinationPath)
	boolean(c, "overwrite", orNull|omit, &p.Overwrite)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

// Attributes answer fs/getAttributes. They describe a name itself: of a link, not of
// its target. ModifiedAtMS is milliseconds since 1970, 0 if it is earlier; Size is in
// bytes; Permissions are the nine permission bits. Target is where a link leads, and
// is absent if that is not UTF-8.
type Attributes struct {
	Kind         string // AttributesFile and so on
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

// SymlinkParams make a symbolic link at Path. Overwrite replaces a link that exists.
type SymlinkParams struct {
	Path           string
	Target         string
	Overwrite      bool
	FollowSymlinks *bool // of directories on the way to Path
	Sandbox        json.RawMessage
}

func (p *SymlinkParams) fields(c *codec) {
	text(c, "path", need, &p.Path)
	text(c, "target", need, &p.Target)
	boolean(c, "overwrite", orNull|omit, &p.Overwrite)
	optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, booleanValue)
	raw(c, "sandbox", orNull|omit, &p.Sandbox)
}

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
