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
	_, _ = rand.Read(id[:]) // it never fails
	return hex.EncodeToString(id[:])
}

// File is an open file of the server. Read, Seek, WriteTo and Close are for
// one goroutine at a time; ReadAt may be called from any.
//
// It belongs to the connection: when that is lost, reading fails, even if the
// session is recovered.
type File struct {
	f      *FS
	path   string
	handle string
	l      *connection // to which the handle belongs
	stream bool        // closed at its end

	ctx    context.Context
	cancel context.CancelFunc
	unhook func() bool
	asked  sync.WaitGroup
	ending sync.Once

	pos    int64 // of the next byte that Read returns
	rest   []byte
	ahead  []ask // of blocks after rest, the first being the next
	next   int64 // offset of the block to be asked for after them
	window int   // how many blocks to ask for at a time
	err    error
}

// ask is a block that was asked for.
type ask struct {
	at     int64
	answer chan block
}

type block struct {
	data []byte
	eof  bool
	err  error
}

// Open opens a file for reading. ctx covers all that is done with it; when it
// ends the file is closed. The caller closes it.
func (f *FS) Open(ctx context.Context, path string) (*File, error) { return f.open(ctx, path, false) }

// OpenStream opens a file to be read once from its beginning to its end, in
// blocks of which several are asked for at a time. ctx covers all that is done
// with it; when it ends the file is closed. The caller closes it.
//
// Servers that cannot do it in a sandbox that confines fail with
// ErrUnsupported; ReadFile works there.
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

// openHandle opens a handle for reading with a request.
func (f *FS) openHandle(ctx context.Context, path, handle, method string, params execproto.Object) (*File, error) {
	r := &File{f: f, path: path, handle: handle, window: 1}
	var err error
	if r.l, err = f.c.callOnce(ctx, method, params, nil); err != nil {
		if ctx.Err() != nil {
			f.c.closeHandle(r.handle) // it may have been opened
		}
		return nil, pathError("open", path, err)
	}
	r.ctx, r.cancel = context.WithCancel(ctx)
	r.unhook = context.AfterFunc(ctx, r.end)
	return r, nil
}

// closeHandle has the server forget a handle whose fate no longer matters.
func (c *Client) closeHandle(handle string) {
	c.background(func(ctx context.Context) {
		_ = c.Call(ctx, execproto.MethodFSClose, &execproto.HandleParams{HandleID: handle}, nil)
	})
}

// end lets go of the handle.
func (r *File) end() {
	r.ending.Do(func() {
		r.cancel()
		r.f.c.closeHandle(r.handle)
	})
}

// Close closes the file. The server is told in the background.
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

// askBlock asks for a block, after those that were asked for before: the blocks of an
// archive follow each other. The function waits for it.
func (r *File) askBlock(at int64, n int) func() block {
	params := execproto.ReadBlockParams{HandleID: r.handle, Offset: uint64(at), Len: uint64(n)}
	result := new(execproto.ReadBlockResult)
	wait := r.f.c.begin(r.ctx, r.l, execproto.MethodFSReadBlock, &params, result)
	return func() block { return r.checkBlock(wait(), result, n) }
}

// checkBlock is a block that was answered, or the error of that.
func (r *File) checkBlock(err error, result *execproto.ReadBlockResult, n int) block {
	switch {
	case err != nil && r.ctx.Err() != nil:
		err = r.ctx.Err() // and not that the handle was closed because of it
	case IsCode(err, execproto.CodeNotFound):
		// The server has closed the handle with the connection that it
		// belonged to, or after an error.
		err = &DisconnectedError{"the file's handle is gone, as after a lost connection: " + err.Error()}
	case err != nil:
	case len(result.Chunk) > n:
		err = protocolf("fs/readBlock returned %d bytes, maximum is %d", len(result.Chunk), n)
	case len(result.Chunk) == 0 && !result.EOF:
		err = protocolf("fs/readBlock returned an empty non-terminal block")
	}
	return block{result.Chunk, result.EOF, err}
}

// askAhead asks for blocks until the window is full. The first block of a file
// is asked for alone: most files are small.
func (r *File) askAhead() {
	for len(r.ahead) < r.window {
		a := ask{r.next, make(chan block, 1)}
		r.ahead = append(r.ahead, a)
		r.next += blockSize
		wait := r.askBlock(a.at, blockSize)
		r.asked.Go(func() { a.answer <- wait() })
	}
}

// fill gets the next block once the one before has been read.
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
		// The blocks that were asked for begin too late.
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

// WriteTo writes what is left of the file to w, without another copy of it.
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

// Seek sets where the next Read begins; io.SeekEnd asks the server for the
// size of what is at the file's path then. A file from OpenStream cannot seek
// once it has been read to its end.
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

// ReadAt reads len(b) bytes at an offset, as io.ReaderAt has it.
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
