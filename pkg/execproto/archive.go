package execproto

import (
	"encoding/json"

	"codex.internal/pkg/wire/jsonwire"
)

// ArchiveMode is the purpose of an fs/openArchive.
type ArchiveMode string

// The modes of fs/openArchive.
const (
	ArchiveRead    ArchiveMode = "read"    // of a tree, by fs/readBlock
	ArchiveExtract ArchiveMode = "extract" // into a tree, by fs/writeBlock
)

var archiveModes = []ArchiveMode{ArchiveRead, ArchiveExtract}

// OpenArchiveParams open a handle, like OpenParams. Its contents are a tar archive of
// the directory Path: fs/readBlock reads the archive, or fs/writeBlock writes the files
// of an archive there, in sequential blocks (docs/spec/wire.md §5.14).
type OpenArchiveParams struct {
	HandleID string
	Path     string
	Mode     ArchiveMode

	// These are for ArchiveRead. Exclude are patterns of names, or of paths if they have a
	// slash, at most MaxArchivePatterns. Paths are the entries in the archive, with
	// slashes and relative to Path, at most MaxArchivePaths; none: everything. After is
	// the path of the last entry of an earlier archive: this archive contains the entries
	// after it. List leaves contents out, Checksums adds their SHA-256, and Times has
	// fractions of seconds.
	Exclude   []string
	Paths     []string
	After     string
	List      bool
	Checksums bool
	Times     bool

	// With ArchiveExtract. Preserve sets permissions and times, and Owners the owners too.
	// FollowSymlinks: false refuses links anywhere on Path; none is followed below it.
	Preserve       bool
	Owners         bool
	FollowSymlinks *bool

	Sandbox json.RawMessage
}

func (p *OpenArchiveParams) Fields(c *jsonwire.Codec) {
	c.Text("handleId", need, &p.HandleID)
	c.Text("path", need, &p.Path)
	jsonwire.Choice(c, "mode", need, &p.Mode, archiveModes)
	c.Texts("exclude", orNull|omit, &p.Exclude)
	c.Texts("paths", orNull|omit, &p.Paths)
	c.Text("after", orNull|omit, &p.After)
	c.Bool("list", orNull|omit, &p.List)
	c.Bool("checksums", orNull|omit, &p.Checksums)
	c.Bool("times", orNull|omit, &p.Times)
	c.Bool("preserve", orNull|omit, &p.Preserve)
	c.Bool("owners", orNull|omit, &p.Owners)
	jsonwire.Optional(c, "followSymlinks", orNull|omit, &p.FollowSymlinks, jsonwire.BoolValue)
	c.Raw("sandbox", orNull|omit, &p.Sandbox)
}

// ArchiveFailure is an entry that was not created, or not with all its attributes. Path
// is the entry's path, with U+FFFD in place of bytes that are not UTF-8.
type ArchiveFailure struct {
	Path    string
	Message string
}

func (f *ArchiveFailure) Fields(c *jsonwire.Codec) {
	c.Text("path", need, &f.Path)
	c.Text("message", need, &f.Message)
}

// WriteBlockResult answers fs/writeBlock and fs/close. Failures are the failed entries of
// an archive since the last answer, and Unnamed counts those that did not fit. The result
// for a file is {}.
type WriteBlockResult struct {
	Failures []ArchiveFailure
	Unnamed  uint64
}

func (r *WriteBlockResult) Fields(c *jsonwire.Codec) {
	jsonwire.Structs(c, "failures", orNull|omit, &r.Failures)
	c.Uint64("unnamed", orNull|omit, &r.Unnamed)
}

// AppendJSON appends r.
func (r WriteBlockResult) AppendJSON(b []byte) []byte { return appendObject(b, &r) }
