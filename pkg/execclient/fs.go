package execclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/jsonwire"
)

// FS does file system work on the server. Paths are `file:` URIs; native
// absolute paths too where the server takes them.
type FS struct{ c *Client }

// FS returns the server's file system.
func (c *Client) FS() *FS { return &FS{c} }

// Stat describes what a path leads to.
func (f *FS) Stat(ctx context.Context, path string) (execproto.Metadata, error) {
	var m execproto.Metadata
	err := f.c.Call(ctx, execproto.MethodFSGetMetadata, execproto.LinkPathParams{Path: path}, &m)
	return m, err
}

// ReadDir lists a directory.
func (f *FS) ReadDir(ctx context.Context, path string) ([]execproto.DirectoryEntry, error) {
	var r execproto.ReadDirectoryResult
	err := f.c.Call(ctx, execproto.MethodFSReadDirectory, execproto.PathParams{Path: path}, &r)
	return r.Entries, err
}

// ReadFile reads a file whole; Reader is for large ones.
func (f *FS) ReadFile(ctx context.Context, path string) ([]byte, error) {
	var r execproto.ReadFileResult
	err := f.c.Call(ctx, execproto.MethodFSReadFile, execproto.LinkPathParams{Path: path}, &r)
	return r.DataBase64, err
}

// Mkdir makes a directory with its parents; one that exists is no error.
func (f *FS) Mkdir(ctx context.Context, path string) error {
	recursive := true
	return f.c.Call(ctx, execproto.MethodFSCreateDirectory, execproto.CreateDirectoryParams{Path: path, Recursive: &recursive}, nil)
}

// Remove removes a file, or with recursive a directory. A missing path is an
// error.
func (f *FS) Remove(ctx context.Context, path string, recursive bool) error {
	force := false
	return f.c.Call(ctx, execproto.MethodFSRemove, execproto.RemoveParams{Path: path, Recursive: &recursive, Force: &force}, nil)
}

// Copy copies within the server.
func (f *FS) Copy(ctx context.Context, source, destination string, recursive bool) error {
	return f.c.Call(ctx, execproto.MethodFSCopy, execproto.CopyParams{SourcePath: source, DestinationPath: destination, Recursive: recursive}, nil)
}

// Canonicalize returns the path without links, as a `file:` URI.
func (f *FS) Canonicalize(ctx context.Context, path string) (string, error) {
	var r execproto.PathResult
	err := f.c.Call(ctx, execproto.MethodFSCanonicalize, execproto.PathParams{Path: path}, &r)
	return r.Path, err
}

func newHandleID() string {
	var id [execproto.MaxHandleIDBytes / 2]byte
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// Download writes a file's contents to w, in blocks of which several are
// asked for at a time. progress, if not nil, is told how many bytes came.
func (f *FS) Download(ctx context.Context, path string, w io.Writer, progress func(int)) error {
	handle := newHandleID()
	open := execproto.OpenParams{HandleID: handle, Path: path}
	if err := f.c.Call(ctx, execproto.MethodFSOpen, open, nil); err != nil {
		return err
	}
	defer f.closeQuietly(handle)
	// A context of its own ends the blocks that are still asked for when one
	// of them fails or the file has ended.
	ctx, cancel := context.WithCancel(ctx)
	var asked sync.WaitGroup
	defer asked.Wait()
	defer cancel()
	type block struct {
		r   execproto.ReadBlockResult
		err error
	}
	queue := make([]chan block, 0, blocksInFlight)
	offset := uint64(0)
	ask := func() {
		at, answer := offset, make(chan block, 1)
		offset += blockSize
		queue = append(queue, answer)
		asked.Go(func() {
			var b block
			b.err = f.c.Call(ctx, execproto.MethodFSReadBlock, execproto.ReadBlockParams{HandleID: handle, Offset: at, Len: blockSize}, &b.r)
			answer <- b
		})
	}
	for range blocksInFlight {
		ask()
	}
	for {
		b := <-queue[0]
		queue = queue[1:]
		switch {
		case b.err != nil:
			return b.err
		case len(b.r.Chunk) > blockSize:
			return protocolf("fs/readBlock returned %d bytes, maximum is %d", len(b.r.Chunk), blockSize)
		case len(b.r.Chunk) < blockSize && !b.r.EOF:
			return protocolf("fs/readBlock returned a short block that is not the last")
		}
		if _, err := w.Write(b.r.Chunk); err != nil {
			return err
		}
		if progress != nil {
			progress(len(b.r.Chunk))
		}
		if b.r.EOF {
			return nil
		}
		ask()
	}
}

// closeQuietly closes a handle whose fate no longer matters.
func (f *FS) closeQuietly(handle string) {
	_ = f.c.Call(context.Background(), execproto.MethodFSClose, execproto.HandleParams{HandleID: handle}, nil)
}

// ErrNoStreaming says that the server cannot take a file in blocks.
var ErrNoStreaming = errors.New("this server cannot write files in blocks")

// Upload writes what r yields to a file, in blocks of which several are under
// way at a time. Where the server is one of ours the file takes the target's
// place in one step when all has been written; codex's own servers write into
// the target, and old ones, with ErrNoStreaming, not at all.
func (f *FS) Upload(ctx context.Context, path string, r io.Reader, progress func(int)) error {
	if !f.c.Capabilities().FileWriteStreaming {
		return ErrNoStreaming
	}
	handle := newHandleID()
	open := execproto.OpenParams{HandleID: handle, Path: path, Mode: execproto.OpenReplace, Atomic: f.c.Has(execproto.MethodProcessList)}
	if err := f.c.Call(ctx, execproto.MethodFSOpen, open, nil); err != nil {
		return err
	}
	if err := f.writeBlocks(ctx, handle, r, progress); err != nil {
		// Closing would put the part into the target's place. A write that
		// cannot be right makes the server drop the handle instead.
		f.abandon(handle)
		return err
	}
	return f.c.Call(ctx, execproto.MethodFSClose, execproto.HandleParams{HandleID: handle}, nil)
}

// abandon makes the server forget a write handle: an offset that no file can
// have ends it.
func (f *FS) abandon(handle string) {
	_ = f.c.Call(context.Background(), execproto.MethodFSWriteBlock,
		execproto.WriteBlockParams{HandleID: handle, Offset: 1 << 63, Chunk: []byte{0}}, nil)
	f.closeQuietly(handle)
}

func (f *FS) writeBlocks(ctx context.Context, handle string, r io.Reader, progress func(int)) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var sent sync.WaitGroup
	slots := make(chan []byte, blocksInFlight)
	for range blocksInFlight {
		slots <- nil
	}
	var readErr error
	for offset := uint64(0); ; {
		buf := <-slots
		if ctx.Err() != nil {
			break
		}
		if buf == nil {
			buf = make([]byte, blockSize)
		}
		n, err := io.ReadFull(r, buf[:blockSize])
		if n > 0 {
			at := offset
			offset += uint64(n)
			sent.Go(func() {
				err := f.c.Call(ctx, execproto.MethodFSWriteBlock, execproto.WriteBlockParams{HandleID: handle, Offset: at, Chunk: buf[:n]}, nil)
				if err != nil {
					cancel(err)
				} else if progress != nil {
					progress(n)
				}
				slots <- buf
			})
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
				readErr = fmt.Errorf("read what is to be written: %w", err)
			}
			break
		}
	}
	sent.Wait()
	if readErr != nil {
		return readErr
	}
	return context.Cause(ctx)
}

// WriteFile writes a file in one message, for small files and for servers
// that take no blocks. The target is truncated first.
func (f *FS) WriteFile(ctx context.Context, path string, data []byte) error {
	return f.c.Call(ctx, execproto.MethodFSWriteFile, execproto.WriteFileParams{
		Path: path, DataBase64: jsonwire.AppendBase64(nil, data),
	}, nil)
}
