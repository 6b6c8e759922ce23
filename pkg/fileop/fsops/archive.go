package fsops

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/dirfd"
	"codex.internal/pkg/host/files"
)

// OpenArchive carries out fs/openArchive for a native path. It ignores the path and the sandbox
// of p. confined is as in files.Options. Long reads stop when ctx ends.
func OpenArchive(ctx context.Context, path string, p *execproto.OpenArchiveParams, confined bool) (*File, error) {
	switch {
	case len(p.Paths) > execproto.MaxArchivePaths:
		return nil, Invalid("an archive takes at most " + strconv.Itoa(execproto.MaxArchivePaths) + " paths")
	case len(p.Exclude) > execproto.MaxArchivePatterns:
		return nil, Invalid("an archive takes at most " + strconv.Itoa(execproto.MaxArchivePatterns) + " patterns")
	}
	exclude, err := archive.Excluder(p.Exclude)
	if err != nil {
		return nil, Invalid("exclude: " + err.Error())
	}
	o := linkOptions(p.FollowSymlinks)
	o.Confined = confined && p.Mode == execproto.ArchiveExtract
	fd, err := files.OpenDirectory(path, o)
	if err != nil {
		return nil, err
	}
	if p.Mode == execproto.ArchiveRead {
		return &File{pack: archive.NewPacker(dirfd.New(fd), archive.PackOptions{
			Context: ctx, Exclude: exclude, Paths: p.Paths, After: p.After, List: p.List, Sums: p.Checksums, Times: p.Times,
		})}, nil
	}
	f := &File{}
	f.unpack = archive.NewUnpacker(dirfd.New(fd), false, archive.UnpackOptions{
		Preserve: p.Preserve, Owner: p.Owners, Failed: f.failed,
	})
	return f, nil
}

// errArchiveOffset is the error for a block of an archive that does not follow the previous
// one.
var errArchiveOffset = Invalid("the blocks of an archive follow each other")

// readArchive reads the next block of an archive.
func (f *File) readArchive(b []byte, offset uint64) (n int, eof bool, err error) {
	if offset != f.at {
		return 0, false, errArchiveOffset
	}
	n, err = f.pack.Read(b)
	f.at += uint64(n)
	if errors.Is(err, io.EOF) {
		err = nil
	}
	return n, err == nil && n < len(b), err
}

// writeArchive handles the next block of an archive.
func (f *File) writeArchive(chunk []byte, offset uint64) error {
	if offset != f.at {
		return errArchiveOffset
	}
	f.at += uint64(len(chunk))
	if _, err := f.unpack.Write(chunk); err != nil {
		return Invalid(err.Error())
	}
	return nil
}

// closeArchive ends an archive.
func (f *File) closeArchive() error {
	if f.pack != nil {
		return f.pack.Close()
	}
	if err := f.unpack.Close(); err != nil {
		return Invalid(err.Error())
	}
	return nil
}

// failed stores the failure of an entry for the next answer.
func (f *File) failed(path string, err error) {
	message := err.Error()
	if len(f.failures) >= maxFailures || f.named+len(path)+len(message) > maxFailureBytes {
		f.unnamed++
		return
	}
	f.named += len(path) + len(message)
	f.failures = append(f.failures, execproto.ArchiveFailure{Path: strings.ToValidUTF8(path, "\uFFFD"), Message: message})
}

// Told returns the entries of an archive that have failed since its last call.
func (f *File) Told() execproto.WriteBlockResult {
	r := execproto.WriteBlockResult{Failures: f.failures, Unnamed: f.unnamed}
	f.failures, f.unnamed, f.named = nil, 0, 0
	return r
}
