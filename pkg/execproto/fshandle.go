package execproto

import "encoding/json"

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
