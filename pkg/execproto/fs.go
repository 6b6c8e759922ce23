package execproto

import "encoding/json"

// PathParams are one path: canonicalize and readDirectory.
type PathParams struct {
	Path    string          `json:"path"`
	Sandbox json.RawMessage `json:"sandbox,omitempty"`
}

// LinkPathParams are one path and whether links on it are followed (nil:
// yes): readFile and getMetadata.
type LinkPathParams struct {
	Path           string          `json:"path"`
	FollowSymlinks *bool           `json:"followSymlinks,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
}

// ReadFileResult answers fs/readFile.
type ReadFileResult struct {
	DataBase64 []byte `json:"dataBase64"`
}

// OpenMode says what fs/open is for.
type OpenMode string

// The modes of fs/open.
const (
	OpenRead    OpenMode = "read"
	OpenReplace OpenMode = "replace"
)

// OpenParams open a file under a handle of the client's choice, at most
// MaxHandleIDBytes long. Atomic, with mode replace, writes beside the target
// and renames on close.
type OpenParams struct {
	HandleID string          `json:"handleId"`
	Path     string          `json:"path"`
	Mode     OpenMode        `json:"mode,omitempty"`
	Atomic   bool            `json:"atomic,omitempty"`
	Sandbox  json.RawMessage `json:"sandbox,omitempty"`
}

// OpenResult answers fs/open.
type OpenResult struct {
	HandleID string `json:"handleId"`
}

// ReadBlockParams read Len bytes (1 to MaxBlockBytes) at Offset.
type ReadBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Len      uint64 `json:"len"`
}

// ReadBlockResult answers fs/readBlock; EOF when fewer than Len bytes came.
type ReadBlockResult struct {
	Chunk []byte `json:"chunk"`
	EOF   bool   `json:"eof"`
}

// WriteBlockParams write Chunk at Offset of a handle opened with replace.
type WriteBlockParams struct {
	HandleID string `json:"handleId"`
	Offset   uint64 `json:"offset"`
	Chunk    []byte `json:"chunk"`
}

// HandleParams name one handle: fs/close.
type HandleParams struct {
	HandleID string `json:"handleId"`
}

// Base64Text is the base64 text of data, which the user of the type decodes.
type Base64Text []byte

// MarshalText returns the text as it is.
func (t Base64Text) MarshalText() ([]byte, error) { return t, nil }

// UnmarshalText keeps a copy of the text.
func (t *Base64Text) UnmarshalText(text []byte) error {
	*t = append(Base64Text{}, text...)
	return nil
}

// WriteFileParams create or truncate a file. DataBase64 stays undecoded because
// bad base64 is the file system's error here, not a params error
// (docs/spec/wire.md §5.3); the decoder lets it alias the message, so that it
// can be decoded in place.
type WriteFileParams struct {
	Path           string          `json:"path"`
	DataBase64     Base64Text      `json:"dataBase64"`
	FollowSymlinks *bool           `json:"followSymlinks,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
}

// CreateDirectoryParams create a directory, with its parents unless
// Recursive is false.
type CreateDirectoryParams struct {
	Path           string          `json:"path"`
	Recursive      *bool           `json:"recursive"`
	FollowSymlinks *bool           `json:"followSymlinks,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
}

// Metadata answers fs/getMetadata: it describes the target of a path, but IsSymlink
// says whether the path itself is a link. Times are milliseconds since 1970, 0 if
// unknown; Size is in bytes.
type Metadata struct {
	IsDirectory  bool   `json:"isDirectory"`
	IsFile       bool   `json:"isFile"`
	IsSymlink    bool   `json:"isSymlink"`
	Size         uint64 `json:"size"`
	CreatedAtMS  int64  `json:"createdAtMs"`
	ModifiedAtMS int64  `json:"modifiedAtMs"`
}

// PathResult answers fs/canonicalize with a `file:` URI.
type PathResult struct {
	Path string `json:"path"`
}

// DirectoryEntry is one name in a directory. IsLossy says that the name is
// not UTF-8 and that FileName holds U+FFFD in place of the odd bytes.
type DirectoryEntry struct {
	FileName    string `json:"fileName"`
	IsDirectory bool   `json:"isDirectory"`
	IsFile      bool   `json:"isFile"`
	IsLossy     bool   `json:"isLossy,omitempty"`
}

// ReadDirectoryResult answers fs/readDirectory, sorted by name.
type ReadDirectoryResult struct {
	Entries []DirectoryEntry `json:"entries"`
}

// RemoveParams remove a file, link or directory. Recursive and Force default
// to true; with Force a missing path is no error.
type RemoveParams struct {
	Path           string          `json:"path"`
	Recursive      *bool           `json:"recursive"`
	Force          *bool           `json:"force"`
	FollowSymlinks *bool           `json:"followSymlinks,omitempty"`
	Sandbox        json.RawMessage `json:"sandbox,omitempty"`
}

// CopyParams copy a file, link or (with Recursive) directory.
type CopyParams struct {
	SourcePath      string          `json:"sourcePath"`
	DestinationPath string          `json:"destinationPath"`
	Recursive       bool            `json:"recursive"`
	Sandbox         json.RawMessage `json:"sandbox,omitempty"`
}

// WalkOptions bound fs/walk. All but PruneHiddenDirectories are required;
// a MaxDepth of 0 lists the root's children only.
type WalkOptions struct {
	MaxDepth                uint64 `json:"maxDepth"`
	MaxDirectories          uint64 `json:"maxDirectories"`
	MaxEntries              uint64 `json:"maxEntries"`
	FollowDirectorySymlinks bool   `json:"followDirectorySymlinks"`
	PruneHiddenDirectories  bool   `json:"pruneHiddenDirectories,omitempty"`
}

// WalkParams list a tree breadth-first.
type WalkParams struct {
	Path    string          `json:"path"`
	Options WalkOptions     `json:"options"`
	Sandbox json.RawMessage `json:"sandbox,omitempty"`
}

// WalkEntry is one thing found; Kind is "directory" or "file".
type WalkEntry struct {
	Path string `json:"path"`
	Kind string `json:"kind"`
}

// WalkError is one directory that could not be listed.
type WalkError struct {
	Path    string `json:"path"`
	Message string `json:"message"`
}

// WalkResult answers fs/walk. Truncated says that a limit ended it.
type WalkResult struct {
	Entries   []WalkEntry `json:"entries"`
	Errors    []WalkError `json:"errors"`
	Truncated bool        `json:"truncated"`
}
