package execclient

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"sync"

	"codex.internal/pkg/execproto"
)

func newHandleID() string {
	var id [execproto.MaxHandleIDBytes / 2]byte
	_, _ = rand.Read(id[:]) // Read never fails
	return hex.EncodeToString(id[:])
}

// File is an open file of the server. Read, Seek, WriteTo and Close are for one goroutine at a
// time; ReadAt may be called from any.
//
// It belongs to a connection: after the connection is lost, reading fails, even if the session
// is recovered.
type File struct {
	f      *FS
	path   string
	handle string
	l      *connection // the connection to which the handle belongs
	stream bool        // closed when the stream ends

	ctx    context.Context
	cancel context.CancelFunc
	unhook func() bool
	asked  sync.WaitGroup
	ending sync.Once

	pos    int64 // offset of the next byte that Read returns
	rest   []byte
	ahead  []ask // blocks in flight after rest, in order
	next   int64 // the offset after the blocks in ahead
	window int   // the number of blocks in flight
	err    error
}

// ask is a request for a block.
type ask struct {
	at     int64
	answer chan block
}

type block struct {
	data []byte
	eof  bool
	err  error
}

// Open opens a file for reading. ctx applies until the file is closed; when it ends the file
// is closed. The caller must close it.
func (f *FS) Open(ctx context.Context, path string) (*File, error) { return f.open(ctx, path, false) }

// OpenStream opens a file to be read once from its beginning to its end, with several blocks
// in flight. ctx applies until the file is closed; when it ends the file is closed. The caller
// must close it.
//
// Servers that cannot stream in a sandbox fail with ErrUnsupported; ReadFile works there.
func (f *FS) OpenStream(ctx context.Context, path string) (io.ReadCloser, error) {
	return f.open(ctx, path, true)
}

func (f *FS) open(ctx context.Context, path string, stream bool) (*File, error) {
	if f.confines && !f.c.Capabilities().SandboxedFileStreaming {
		return nil, pathError("open", path, fmt.Errorf("streaming file reads do not support platform sandboxing: %w", ErrUnsupported))
	}
	handle := newHandleID()
	r, err := f.openHandle(ctx, path, handle, execproto.MethodFSOpen, &execproto.OpenParams{HandleID: handle, Path: pathOf(path), Sandbox: f.sandbox})
	if err != nil {
		return nil, err
	}
	r.stream = stream
	return r, nil
}

// openHandle sends a request that opens a handle for reading.
func (f *FS) openHandle(ctx context.Context, path, handle, method string, params execproto.Object) (*File, error) {
	r := &File{f: f, path: path, handle: handle, window: 1}
	var err error
	if r.l, err = f.c.callOnce(ctx, method, params, nil); err != nil {
		if ctx.Err() != nil {
			f.c.closeHandle(r.handle) // the server may have opened it
		}
		return nil, pathError("open", path, err)
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.unhook = context.AfterFunc(ctx, r.end)
	return r, nil
}

// closeHandle closes a handle in the background. Its errors are ignored.
func (c *Client) closeHandle(handle string) {
	c.background(func(ctx context.Context) {
		_ = c.Call(ctx, execproto.MethodFSClose, &execproto.HandleParams{HandleID: handle}, nil)
	})
}

// end closes the handle.
func (r *File) end() {
	r.ending.Do(func() {
		r.cancel()
		r.f.c.closeHandle(r.handle)
	})
}

// Close closes the file. It does not wait for the server.
func (r *File) Close() error {
	if errors.Is(r.err, fs.ErrClosed) {
		return pathError("close", r.path, fs.ErrClosed)
	}
	r.err = pathError("read", r.path, fs.ErrClosed)
	r.rest, r.ahead = nil, nil
	r.unhook()
	r.end()
	r.asked.Wait()
	return nil
}

// readBlock reads a block.
func (r *File) readBlock(at int64, n int) block { return r.askBlock(at, n)() }

// askBlock requests a block after the ones requested before: the blocks of an archive are
// sequential. The returned function waits for it.
func (r *File) askBlock(at int64, n int) func() block {
	params := execproto.ReadBlockParams{HandleID: r.handle, Offset: uint64(at), Len: uint64(n)}
	result := new(execproto.ReadBlockResult)
	wait := r.f.c.begin(r.ctx, r.l, execproto.MethodFSReadBlock, &params, result)
	return func() block { return r.checkBlock(wait(), result, n) }
}

// checkBlock returns the answered block, or its error.
func (r *File) checkBlock(err error, result *execproto.ReadBlockResult, n int) block {
	switch {
	case err != nil && r.ctx.Err() != nil:
		err = r.ctx.Err() // not the error of the handle, which was closed because ctx ended
	case IsCode(err, execproto.CodeNotFound):
		// The server closed the handle with its connection, or after an error.
		err = &DisconnectedError{Message: "the file's handle is lost, for example with its connection: " + err.Error()}
	case err != nil:
	case len(result.Chunk) > n:
		err = protocolf("fs/readBlock returned %d bytes, maximum is %d", len(result.Chunk), n)
	case len(result.Chunk) == 0 && !result.EOF:
		err = protocolf("fs/readBlock returned an empty non-terminal block")
	}
	return block{result.Chunk, result.EOF, err}
}

// askAhead requests blocks until the window is full. The first block is requested alone,
// because most files are small.
func (r *File) askAhead() {
	for len(r.ahead) < r.window {
		a := ask{r.next, make(chan block, 1)}
		r.ahead = append(r.ahead, a)
		r.next += blockSize
		wait := r.askBlock(a.at, blockSize)
		r.asked.Go(func() { a.answer <- wait() })
	}
}

// fill waits for the next block.
func (r *File) fill() error {
	if r.err != nil {
		return r.err
	}
	r.askAhead()
	a := r.ahead[0]
	r.ahead = r.ahead[1:]
	b := <-a.answer
	switch {
	case b.err != nil:
		r.err = pathError("read", r.path, b.err)
		r.end()
		return r.err
	case b.eof:
		r.err = io.EOF
		if r.stream {
			r.unhook()
			r.end()
		}
	case len(b.data) < blockSize:
		// The requested blocks now have wrong offsets.
		r.ahead, r.next = nil, a.at+int64(len(b.data))
	default:
		r.window = blocksInFlight
		r.askAhead()
	}
	r.rest = b.data
	return nil
}

func (r *File) Read(b []byte) (int, error) {
	for len(r.rest) == 0 {
		if len(b) == 0 {
			return 0, nil
		}
		if err := r.fill(); err != nil {
			return 0, err
		}
	}
	n := copy(b, r.rest)
	r.rest = r.rest[n:]
	r.pos += int64(n)
	return n, nil
}

// WriteTo writes the rest of the file to w without copying it again.
func (r *File) WriteTo(w io.Writer) (int64, error) {
	total := int64(0)
	for {
		for len(r.rest) == 0 {
			err := r.fill()
			if errors.Is(err, io.EOF) {
				return total, nil
			}
			if err != nil {
				return total, err
			}
		}
		n, err := w.Write(r.rest)
		r.rest = r.rest[n:]
		r.pos += int64(n)
		total += int64(n)
		if err == nil && len(r.rest) > 0 {
			err = io.ErrShortWrite
		}
		if err != nil {
			return total, err
		}
	}
}

// Seek sets the offset of the next Read; with io.SeekEnd it asks the server for the current
// size of the file at the path. A file from OpenStream cannot seek after its end.
func (r *File) Seek(offset int64, whence int) (int64, error) {
	fail := func(err error) (int64, error) { return 0, pathError("seek", r.path, err) }
	if r.err != nil && (r.stream || !errors.Is(r.err, io.EOF)) {
		return fail(fs.ErrClosed)
	}
	switch whence {
	case io.SeekStart:
	case io.SeekCurrent:
		offset += r.pos
	case io.SeekEnd:
		m, err := r.f.Stat(r.ctx, r.path)
		if err != nil {
			return fail(err)
		}
		offset += int64(m.Size)
	default:
		return fail(fs.ErrInvalid)
	}
	if offset < 0 {
		return fail(fs.ErrInvalid)
	}
	r.pos, r.next, r.window = offset, offset, 1
	r.rest, r.ahead, r.err = nil, nil, nil
	return offset, nil
}

// ReadAt implements io.ReaderAt.
func (r *File) ReadAt(b []byte, offset int64) (int, error) {
	if offset < 0 {
		return 0, pathError("read", r.path, fs.ErrInvalid)
	}
	n := 0
	for n < len(b) {
		got := r.readBlock(offset+int64(n), min(len(b)-n, blockSize))
		if got.err != nil {
			return n, pathError("read", r.path, got.err)
		}
		n += copy(b[n:], got.data)
		if got.eof && n < len(b) {
			return n, io.EOF
		}
	}
	return n, nil
}
