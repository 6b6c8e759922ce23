package fsops

import (
	"fmt"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/files"
)

// File is the file of a handle (docs/spec/wire.md §5.4), open in this process. Only one
// goroutine may use it at a time.
type File struct {
	read   *files.ReadHandle // or
	write  *files.WriteHandle
	pack   *archive.Packer
	unpack *archive.Unpacker

	// Of an archive.
	at       uint64 // offset of the next block
	failures []execproto.ArchiveFailure
	named    int // total size of the texts of failures, in bytes
	unnamed  uint64
}

// OpenFile carries out fs/open for a native path. It ignores the path and the
// sandbox of p. confined is as in files.Options.
func OpenFile(path string, p *execproto.OpenParams, confined bool) (*File, error) {
	f := &File{}
	var err error
	if p.Mode == execproto.OpenReplace {
		o := linkOptions(p.FollowSymlinks)
		o.Confined = confined
		f.write, err = files.OpenWrite(path, files.WriteOptions{
			Options: o, Atomic: p.Atomic, Permissions: p.Permissions,
		})
	} else {
		f.read, err = files.OpenRead(path)
	}
	if err != nil {
		return nil, err
	}
	return f, nil
}

// ReadBlock reads up to len(b) bytes at an offset. eof means that the file has no
// more bytes. The file must be open for reading.
func (f *File) ReadBlock(b []byte, offset uint64) (n int, eof bool, err error) {
	if f.pack != nil {
		return f.readArchive(b, offset)
	}
	return f.read.ReadAt(b, offset)
}

// WriteBlock writes at an offset. The file must be open for writing.
func (f *File) WriteBlock(chunk []byte, offset uint64) error {
	if f.unpack != nil {
		return f.writeArchive(chunk, offset)
	}
	return f.write.WriteAt(chunk, offset)
}

// Close closes the file. An atomic write replaces its target here.
func (f *File) Close() error {
	switch {
	case f.write != nil:
		return f.write.Close()
	case f.read != nil:
		return f.read.Close()
	}
	return f.closeArchive()
}

// Abandon closes the file without completing an atomic write. After Close it does
// nothing.
func (f *File) Abandon() {
	switch {
	case f.write != nil:
		_ = f.write.Abort()
	case f.read != nil:
		_ = f.read.Close()
	case f.unpack != nil:
		f.unpack.Abort()
	default:
		_ = f.pack.Close()
	}
}

// ModeOf returns the mode of an archive's handle as a mode for CheckMode.
func ModeOf(mode execproto.ArchiveMode) execproto.OpenMode {
	if mode == execproto.ArchiveExtract {
		return execproto.OpenReplace
	}
	return execproto.OpenRead
}

// CheckMode returns an error if a handle that is open for one mode is used for
// another.
func CheckMode(id string, open, wanted execproto.OpenMode) error {
	switch {
	case (open == execproto.OpenReplace) == (wanted == execproto.OpenReplace):
		return nil
	case open == execproto.OpenReplace:
		return Invalid(fmt.Sprintf("file handle `%s` is open for writing", id))
	default:
		return Invalid(fmt.Sprintf("file handle `%s` is open for reading", id))
	}
}
