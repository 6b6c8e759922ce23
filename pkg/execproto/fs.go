package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// PathParams are one path: canonicalize, getAttributes and listAttributes.
type PathParams struct {
	Path    string
	Sandbox json.RawMessage
}

func (p *PathParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// LinkPathParams are one path and whether links on it are followed (nil:
// yes): readFile and getMetadata.
type LinkPathParams struct {
	Path           string
	FollowSymlinks *bool
	Sandbox        json.RawMessage
}

func (p *LinkPathParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// ReadFileResult answers fs/readFile.
type ReadFileResult struct {
	DataBase64 []byte
}

func (r *ReadFileResult) Fields(c *jsonwire.Codec) {
	base64Field(c, "dataBase64", need, &r.DataBase64)
}

// AppendJSON appends r.
func (r ReadFileResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

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

func (p *WriteFileParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	c.Base64Text("dataBase64", need, (*[]byte)(&p.DataBase64))
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	c.Bool("atomic", orNull|omit, &p.Atomic)
	jsonwire.Optional(c, "permissions", orNull|omit, &p.Permissions, jsonwire.Uint32Value)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
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

func (p *CreateDirectoryParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	jsonwire.Optional(c, "recursive", orNull, &p.Recursive, jsonwire.BoolValue)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	jsonwire.Optional(c, "permissions", orNull|omit, &p.Permissions, jsonwire.Uint32Value)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
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

func (p *Metadata) Fields(c *jsonwire.Codec) {
	c.Bool("isDirectory", orNull, &p.IsDirectory)
	c.Bool("isFile", orNull, &p.IsFile)
	c.Bool("isSymlink", orNull, &p.IsSymlink)
	c.Uint64("size", orNull, &p.Size)
	c.Int64("createdAtMs", orNull, &p.CreatedAtMS)
	c.Int64("modifiedAtMs", orNull, &p.ModifiedAtMS)
}

// AppendJSON appends p.
func (p Metadata) AppendJSON(b []byte) []byte { return appendObject(b, &p) }

// PathResult answers fs/canonicalize with a `file:` URI.
type PathResult struct {
	Path string
}

func (r *PathResult) Fields(c *jsonwire.Codec) {
	c.Text("path", orNull, &r.Path)
}

// AppendJSON appends r.
func (r PathResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// RemoveParams remove a file, link or directory. Recursive and Force default to true;
// with Force a missing path is no error. RemoveLink is supported by servers that
// announce ExtensionRemoveLink: with FollowSymlinks false, a link at the end of Path is
// removed itself instead of being refused.
type RemoveParams struct {
	Path           string
	Recursive      *bool
	Force          *bool
	FollowSymlinks *bool
	RemoveLink     bool
	Sandbox        json.RawMessage
}

func (p *RemoveParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	jsonwire.Optional(c, "recursive", orNull, &p.Recursive, jsonwire.BoolValue)
	jsonwire.Optional(c, "force", orNull, &p.Force, jsonwire.BoolValue)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	c.Bool("removeLink", orNull|omit, &p.RemoveLink)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// CopyParams copy a file, link or (with Recursive) directory.
type CopyParams struct {
	SourcePath      string
	DestinationPath string
	Recursive       bool
	Sandbox         json.RawMessage
}

func (p *CopyParams) Fields(c *jsonwire.Codec) {
	c.Text("sourcePath", need, &p.SourcePath)
	c.Text("destinationPath", need, &p.DestinationPath)
	c.Bool("recursive", need, &p.Recursive)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// CopyResult answers fs/copy. LeftOut is set if the source was a directory with
// files that cannot be copied: everything else was copied.
type CopyResult struct{ LeftOut *LeftOut }

func (r *CopyResult) Fields(c *jsonwire.Codec) {
	jsonwire.Optional(c, "leftOut", orNull|omit, &r.LeftOut, jsonwire.StructValue)
}

// AppendJSON appends r.
func (r CopyResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// LeftOut says how many pipes, sockets and devices a copy left out. Paths has the
// URIs of the first of them.
type LeftOut struct {
	Count uint64
	Paths []string
}

func (l *LeftOut) Fields(c *jsonwire.Codec) {
	c.Uint64("count", need, &l.Count)
	c.Texts("paths", need, &l.Paths)
}

// RenameParams rename a file, link or directory. An existing destination is an
// error unless Overwrite is true.
type RenameParams struct {
	SourcePath      string
	DestinationPath string
	Overwrite       bool
	Sandbox         json.RawMessage
}

func (p *RenameParams) Fields(c *jsonwire.Codec) {
	c.Text("sourcePath", need, &p.SourcePath)
	c.Text("destinationPath", need, &p.DestinationPath)
	c.Bool("overwrite", orNull|omit, &p.Overwrite)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// SymlinkParams make a symbolic link at Path. Overwrite replaces an existing link.
type SymlinkParams struct {
	Path           string
	Target         string
	Overwrite      bool
	FollowSymlinks *bool // of directories on the way to Path
	Sandbox        json.RawMessage
}

func (p *SymlinkParams) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &p.Path)
	c.Text("target", need, &p.Target)
	c.Bool("overwrite", orNull|omit, &p.Overwrite)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}
