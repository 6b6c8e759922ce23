package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// OpenMode is the purpose of an fs/open.
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
	// Permissions are the permissions of a new file, less the umask; nil: 0666.
	Permissions *uint32
	Sandbox     json.RawMessage
}

func (p *OpenParams) Fields(c *jsonwire.Codec) {
	c.Text("handleId", need, &p.HandleID)
	c.Text("path", need, &p.Path)
	jsonwire.Choice(c, "mode", orNull|omit, &p.Mode, openModes)
	c.Bool("atomic", orNull|omit, &p.Atomic)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	jsonwire.Optional(c, "permissions", orNull|omit, &p.Permissions, jsonwire.Uint32Value)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// OpenResult answers fs/open.
type OpenResult struct {
	HandleID string
}

func (r *OpenResult) Fields(c *jsonwire.Codec) {
	c.Text("handleId", orNull, &r.HandleID)
}

// AppendJSON appends r.
func (r OpenResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// ReadBlockParams read Len bytes (1 to MaxBlockBytes) at Offset.
type ReadBlockParams struct {
	HandleID string
	Offset   uint64
	Len      uint64
}

func (p *ReadBlockParams) Fields(c *jsonwire.Codec) {
	c.Text("handleId", need, &p.HandleID)
	c.Uint64("offset", need, &p.Offset)
	c.Uint64("len", need, &p.Len)
}

// ReadBlockResult answers fs/readBlock. EOF is set when fewer than Len bytes were read.
type ReadBlockResult struct {
	Chunk []byte
	EOF   bool
}

func (r *ReadBlockResult) Fields(c *jsonwire.Codec) {
	base64Field(c, "chunk", need, &r.Chunk)
	c.Bool("eof", need, &r.EOF)
}

// AppendJSON appends r.
func (r ReadBlockResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }

// WriteBlockParams write Chunk at Offset of a handle opened with replace.
type WriteBlockParams struct {
	HandleID string
	Offset   uint64
	Chunk    []byte
}

func (p *WriteBlockParams) Fields(c *jsonwire.Codec) {
	c.Text("handleId", need, &p.HandleID)
	c.Uint64("offset", need, &p.Offset)
	base64Field(c, "chunk", need, &p.Chunk)
}

// HandleParams name one handle: fs/close.
type HandleParams struct {
	HandleID string
}

func (p *HandleParams) Fields(c *jsonwire.Codec) {
	c.Text("handleId", need, &p.HandleID)
}
