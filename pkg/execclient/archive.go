package execclient

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"codex.internal/pkg/execproto"
)

// HasArchives reports whether the server supports OpenArchive and CreateArchive. Codex CLI's
// servers do not.
func (f *FS) HasArchives() bool { return f.c.Has(execproto.MethodFSOpenArchive) }

// ArchiveOptions select the entries of an archive of a tree (docs/spec/wire.md §5.14).
type ArchiveOptions struct {
	Exclude         []string // patterns for names, or for paths if they contain a slash
	Paths           []string // relative, with slashes; nil: everything
	After           string   // continue after this path, the last one of an interrupted archive
	List, Checksums bool     // files without contents; with checksums
	Times           bool     // with fractions of a second
}

// OpenArchive reads a directory as a tar archive, with several blocks in flight. When ctx
// ends, the archive is closed. The caller must close it. If the server does not support
// archives, the error is ErrUnsupported.
func (f *FS) OpenArchive(ctx context.Context, path string, o ArchiveOptions) (io.ReadCloser, error) {
	if err := f.archives("open", path); err != nil {
		return nil, err
	}
	handle := newHandleID()
	r, err := f.openHandle(ctx, path, handle, execproto.MethodFSOpenArchive, &execproto.OpenArchiveParams{
		HandleID: handle, Path: pathOf(path), Mode: execproto.ArchiveRead, Exclude: o.Exclude, Paths: o.Paths, After: o.After,
		List: o.List, Checksums: o.Checksums, Times: o.Times, Sandbox: f.sandbox,
	})
	if err != nil {
		return nil, err
	}
	r.stream, r.window = true, blocksInFlight
	return r, nil
}

// archives returns an error if the server cannot open archives of this file system.
func (f *FS) archives(op, path string) error {
	switch {
	case !f.HasArchives():
		return pathError(op, path, fmt.Errorf("this server does not support archives: %w", ErrUnsupported))
	case f.confines && !f.c.Capabilities().SandboxedFileStreaming:
		return pathError(op, path, fmt.Errorf("archives do not support platform sandboxing: %w", ErrUnsupported))
	}
	return nil
}

// ExtractOptions configure how the server unpacks an archive into a directory.
type ExtractOptions struct {
	Preserve bool // permissions and times; else only the permissions of new files, less the umask
	Owners   bool // set owners and groups, by number
	NoFollow bool // refuse links on the way to the directory; links below it are never followed
	// Failed is called for each entry that the server did not unpack, and Unnamed with the
	// number of further ones. They must be set, and are called from any goroutine.
	Failed  func(path, message string)
	Unnamed func(n uint64)
}

// ArchiveWriter writes an archive that the server unpacks into a directory. Files that are
// unpacked stay after Abort.
type ArchiveWriter struct {
	*FileWriter
	taken atomic.Uint64
}

// Taken returns how many bytes of the archive the server has processed.
func (w *ArchiveWriter) Taken() uint64 { return w.taken.Load() }

// CreateArchive begins to unpack a tar archive into an existing directory. ctx applies until
// the writer is closed. The caller must call Close or Abort. Servers without archives fail
// with ErrUnsupported.
func (f *FS) CreateArchive(ctx context.Context, path string, o ExtractOptions) (*ArchiveWriter, error) {
	if err := f.archives("create", path); err != nil {
		return nil, err
	}
	handle := newHandleID()
	w, err := f.createHandle(ctx, path, handle, execproto.MethodFSOpenArchive, &execproto.OpenArchiveParams{
		HandleID: handle, Path: pathOf(path), Mode: execproto.ArchiveExtract,
		Preserve: o.Preserve, Owners: o.Owners, FollowSymlinks: follow(o.NoFollow), Sandbox: f.sandbox,
	})
	if err != nil {
		return nil, err
	}
	a := &ArchiveWriter{FileWriter: w}
	w.answered = func(r *execproto.WriteBlockResult, upTo uint64) {
		for _, failure := range r.Failures {
			o.Failed(failure.Path, failure.Message)
		}
		if r.Unnamed > 0 {
			o.Unnamed(r.Unnamed)
		}
		for {
			taken := a.taken.Load()
			if upTo <= taken || a.taken.CompareAndSwap(taken, upTo) {
				return
			}
		}
	}
	return a, nil
}
