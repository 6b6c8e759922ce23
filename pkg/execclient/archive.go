package execclient

import (
	"context"
	"fmt"
	"io"
	"sync/atomic"

	"codex.internal/pkg/execproto"
)

// HasArchives reports whether the server knows OpenArchive and CreateArchive. Codex CLI's
// servers do not.
func (f *FS) HasArchives() bool { return f.c.Has(execproto.MethodFSOpenArchive) }

// ArchiveOptions say what an archive of a tree has (docs/spec/wire.md §5.14).
type ArchiveOptions struct {
	Exclude         []string // patterns of names, or of paths if they have a slash
	Paths           []string // relative, with slashes; nil: everything
	After           string   // the last path of an archive that was cut
	List, Checksums bool     // without contents; with their sums
	Times           bool     // with fractions of seconds
}

// OpenArchive reads a directory as a tar archive, in blocks of which several are asked for
// at a time. ctx covers all that is done with it; when it ends the archive is closed. The
// caller closes it. Servers that do not know it fail with ErrUnsupported.
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

// archives returns an error unless archives of this file system can be opened.
func (f *FS) archives(op, path string) error {
	switch {
	case !f.HasArchives():
		return pathError(op, path, fmt.Errorf("this server knows no archives: %w", ErrUnsupported))
	case f.confines && !f.c.Capabilities().SandboxedFileStreaming:
		return pathError(op, path, fmt.Errorf("archives do not support platform sandboxing: %w", ErrUnsupported))
	}
	return nil
}

// ExtractOptions say how an archive is put into a directory.
type ExtractOptions struct {
	Preserve bool // permissions and times, else only permissions, of what is new and less the umask
	Owners   bool // by their numbers
	NoFollow bool // refuse links on the way to the directory; below it none is followed
	// Failed is told of each entry that the server did not put in its place, from any
	// goroutine; more are counted by Unnamed. They must be set.
	Failed  func(path, message string)
	Unnamed func(n uint64)
}

// ArchiveWriter is a FileWriter of an archive whose files the server puts into a
// directory. After Abort those that have come stay there.
type ArchiveWriter struct {
	*FileWriter
	taken atomic.Uint64
}

// Taken returns how many bytes of the archive the server has worked on.
func (w *ArchiveWriter) Taken() uint64 { return w.taken.Load() }

// CreateArchive begins to write the files of a tar archive into a directory that exists.
// ctx covers all that is done with it; the caller calls Close or Abort. Servers that do
// not know it fail with ErrUnsupported.
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
