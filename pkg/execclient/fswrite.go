package execclient

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"sync"

	"codex.internal/pkg/execproto"
)

// WriteOptions configure how a file is written.
type WriteOptions struct {
	// Atomic leaves the target unchanged until the file is closed, and then replaces it in one
	// step. Servers that cannot do it fail with ErrUnsupported.
	Atomic bool
	// Permissions are those of a new file, less the server's umask; nil: 0666. An existing
	// file keeps its own. Servers without HasAttributes fail with ErrUnsupported.
	Permissions *fs.FileMode
	// NoFollow refuses paths with a symbolic link: fs.ErrInvalid. Servers without
	// HasAttributes support it for WriteFileWith only, and otherwise follow links.
	NoFollow bool
	// Sparse makes long runs of zeros holes of the file, which are not sent. WriteStream and Create support it.
	Sparse bool
}

// CanWriteAtomically reports whether the server supports WriteOptions.Atomic.
func (f *FS) CanWriteAtomically() bool {
	return f.c.Capabilities().FileWriteStreaming && f.c.Has(execproto.MethodProcessList)
}

// FileWriter writes a file of the server from its beginning to its end, with several blocks in
// flight. It is for one goroutine at a time.
//
// With WriteOptions.Atomic it survives the loss of its connection if the session is recovered: it
// sends the blocks again that were not answered. Close is not repeated: see ask.
type FileWriter struct {
	f      *FS
	path   string
	handle string
	lasts  bool // the handle belongs to the session, and else to the connection

	moving sync.Mutex
	l      *connection // where the handle was opened, or the last one on which a block is sent; guarded by moving

	ctx    context.Context // ends with the first error as its cause
	cancel context.CancelCauseFunc
	unhook func() bool
	sent   sync.WaitGroup
	slots  chan []byte // buffers; nil: not allocated yet
	ending sync.Once

	// answered is called for archives, with each answer and the offset up to which data was
	// sent.
	answered func(r *execproto.WriteBlockResult, upTo uint64)

	sparse bool // blocks of zeros are not sent
	hole   bool // the last block was not sent

	block  []byte // data that is not sent yet
	offset uint64 // offset of block
	closed bool
}

// Create creates or truncates a file for writing. ctx applies until the writer is closed; if
// it ends before Close, the writing is aborted. The caller must call Close or Abort.
//
// Old servers, which do not accept blocks, fail with ErrUnsupported; WriteFile works there.
func (f *FS) Create(ctx context.Context, path string, o WriteOptions) (*FileWriter, error) {
	switch {
	case !f.c.Capabilities().FileWriteStreaming:
		return nil, pathError("create", path, fmt.Errorf("files are not taken in blocks: %w", ErrUnsupported))
	case o.Atomic && !f.CanWriteAtomically():
		return nil, pathError("create", path, fmt.Errorf("files are not replaced in one step: %w", ErrUnsupported))
	case o.Permissions != nil && !f.HasAttributes():
		return nil, pathError("create", path, fmt.Errorf("this server does not support permissions: %w", ErrUnsupported))
	case f.confines && !f.c.Capabilities().SandboxedFileStreaming:
		return nil, pathError("create", path, fmt.Errorf("streaming file writes do not support platform sandboxing: %w", ErrUnsupported))
	}
	handle := newHandleID()
	w, err := f.createHandle(ctx, path, handle, execproto.MethodFSOpen, &execproto.OpenParams{
		HandleID: handle, Path: pathOf(path), Mode: execproto.OpenReplace, Atomic: o.Atomic,
		Permissions: bitsOf(o.Permissions), FollowSymlinks: follow(o.NoFollow), Sandbox: f.sandbox,
	})
	if err == nil {
		w.sparse, w.lasts = o.Sparse, o.Atomic
	}
	return w, err
}

// createHandle sends a request that opens a handle for writing.
func (f *FS) createHandle(ctx context.Context, path, handle, method string, params execproto.Object) (*FileWriter, error) {
	w := &FileWriter{f: f, path: path, handle: handle, slots: make(chan []byte, blocksInFlight)}
	for range blocksInFlight {
		w.slots <- nil
	}
	var err error
	if w.l, err = f.c.callOnce(ctx, method, params, nil); err != nil {
		if ctx.Err() != nil {
			f.c.abandonHandle(w.handle) // the server may have opened it
		}
		return nil, pathError("create", path, err)
	}
	w.ctx, w.cancel = context.WithCancelCause(ctx)
	w.unhook = context.AfterFunc(ctx, w.abandon)
	return w, nil
}

// abandonHandle makes the server drop a handle for writing. Closing it would replace the
// target; a block at an impossible offset ends it instead.
func (c *Client) abandonHandle(handle string) {
	c.background(func(ctx context.Context) {
		_ = c.Call(ctx, execproto.MethodFSWriteBlock,
			&execproto.WriteBlockParams{HandleID: handle, Offset: math.MaxInt64 + 1, Chunk: []byte{0}}, nil)
		_ = c.Call(ctx, execproto.MethodFSClose, &execproto.HandleParams{HandleID: handle}, nil)
	})
}

func (w *FileWriter) abandon() { w.ending.Do(func() { w.f.c.abandonHandle(w.handle) }) }

func (w *FileWriter) error(err error) error { return pathError("write", w.path, err) }

// Write copies p and sends it in full blocks. An error may belong to an earlier block.
func (w *FileWriter) Write(p []byte) (int, error) {
	if w.closed {
		return 0, w.error(fs.ErrClosed)
	}
	done := 0
	for done < len(p) {
		if err := w.reserve(); err != nil {
			return done, err
		}
		n := min(blockSize-len(w.block), len(p)-done)
		w.block = append(w.block, p[done:done+n]...)
		done += n
		w.sendFull()
	}
	return done, nil
}

// ReadFrom reads r to its end and writes its data without copying it again.
func (w *FileWriter) ReadFrom(r io.Reader) (int64, error) {
	if w.closed {
		return 0, w.error(fs.ErrClosed)
	}
	total := int64(0)
	for {
		if err := w.reserve(); err != nil {
			return total, err
		}
		n, err := r.Read(w.block[len(w.block):blockSize])
		w.block = w.block[:len(w.block)+n]
		total += int64(n)
		w.sendFull()
		switch {
		case errors.Is(err, io.EOF):
			return total, nil
		case err != nil:
			return total, fmt.Errorf("read the new content of %s: %w", w.path, err)
		}
	}
}

// reserve makes sure that a block with free space exists.
func (w *FileWriter) reserve() error {
	if w.ctx.Err() == nil && w.block == nil {
		select {
		case w.block = <-w.slots:
			if w.block == nil {
				w.block = make([]byte, 0, blockSize)
			}
			w.block = w.block[:0]
		case <-w.ctx.Done():
		}
	}
	if w.ctx.Err() != nil {
		return w.error(context.Cause(w.ctx))
	}
	return nil
}

func (w *FileWriter) sendFull() {
	if len(w.block) < blockSize {
		return
	}
	if w.hole = w.sparse && isZero(w.block); w.hole {
		w.offset += uint64(len(w.block))
		w.block = w.block[:0]
		return
	}
	w.send()
}

// isZero reports whether all bytes are zero.
func isZero(b []byte) bool {
	for len(b) > 0 {
		n := min(len(b), len(zeros))
		if !bytes.Equal(b[:n], zeros[:n]) {
			return false
		}
		b = b[n:]
	}
	return true
}

var zeros [4096]byte

// send sends the block and releases its buffer when the server has answered.
func (w *FileWriter) send() {
	data, at := w.block, w.offset
	w.offset += uint64(len(data))
	w.block = nil
	params := &execproto.WriteBlockParams{HandleID: w.handle, Offset: at, Chunk: data}
	ask := func(l *connection) func() error {
		return w.ask(w.ctx, l, execproto.MethodFSWriteBlock, params, at+uint64(len(data)))
	}
	l := w.connection()
	wait := ask(l)
	w.sent.Go(func() {
		err := wait()
		for tries := 0; w.lasts && tries < blockTries && errors.Is(err, ErrClosed); tries++ {
			next, down := w.move(l)
			if down != nil {
				err = down
				break
			}
			l, err = next, ask(next)()
		}
		if IsCode(err, execproto.CodeNotFound) {
			err = &DisconnectedError{Message: "the file's handle is lost, for example with its connection: " + err.Error()}
		}
		if err != nil {
			w.cancel(err)
		}
		w.slots <- data
	})
}

// connection returns the connection on which to send.
func (w *FileWriter) connection() *connection {
	w.moving.Lock()
	defer w.moving.Unlock()
	return w.l
}

// move waits for the connection after a lost one, and returns it.
func (w *FileWriter) move(lost *connection) (*connection, error) {
	w.moving.Lock()
	defer w.moving.Unlock()
	if w.l != lost {
		return w.l, nil
	}
	if err := w.f.c.waitDown(w.ctx, lost); err != nil {
		return nil, err
	}
	l, err := w.f.c.live(w.ctx)
	if err == nil {
		w.l = l
	}
	return l, err
}

// ask makes a request about the handle after earlier ones, because the blocks of an archive are
// sequential. The returned function waits for the answer and passes it on with upTo, the offset
// up to which data was sent.
//
// fs/close is sent only on a connection on which the handle was opened or a block was answered.
// Scenario: all blocks of a write have been answered, and then the connection is lost, with which
// the server ends the write. On the next connection fs/close of an unknown handle succeeds, and
// the writer would assume that the file is complete (docs/spec/client.md §3.2).
func (w *FileWriter) ask(ctx context.Context, l *connection, method string, params execproto.Object, upTo uint64) func() error {
	if w.answered == nil {
		return w.f.c.begin(ctx, l, method, params, nil)
	}
	r := new(execproto.WriteBlockResult)
	wait := w.f.c.begin(ctx, l, method, params, r)
	return func() error {
		err := wait()
		if err == nil {
			w.answered(r, upTo)
		}
		return err
	}
}

// Close sends the rest and closes the file. With Atomic this replaces the target. After an
// error the writing is aborted; without Atomic the target may have a part of the data.
func (w *FileWriter) Close() error {
	if w.closed {
		return w.error(fs.ErrClosed)
	}
	if w.hole && len(w.block) == 0 && w.reserve() == nil {
		w.offset-- // the last byte gives the file its size
		w.block = append(w.block, 0)
	}
	if len(w.block) > 0 && w.ctx.Err() == nil {
		w.send()
	}
	w.sent.Wait()
	// From here on, the end of ctx does not abort the writing any more.
	if err := context.Cause(w.ctx); err != nil || !w.unhook() {
		w.Abort()
		if err == nil {
			err = context.Cause(w.ctx)
		}
		return w.error(err)
	}
	w.closed = true
	w.ending.Do(func() {})
	err := w.ask(w.ctx, w.connection(), execproto.MethodFSClose, &execproto.HandleParams{HandleID: w.handle}, w.offset)()
	w.cancel(nil)
	return pathError("close", w.path, err)
}

// Abort aborts the writing: with Atomic the target stays unchanged. After Close it does
// nothing.
func (w *FileWriter) Abort() {
	if w.closed {
		return
	}
	w.closed = true
	w.unhook()
	w.cancel(fs.ErrClosed)
	w.sent.Wait()
	w.abandon()
}

// WriteStream writes the data of r to a file, as with Create. If r or the server fails, the
// writing is aborted.
func (f *FS) WriteStream(ctx context.Context, path string, r io.Reader, o WriteOptions) error {
	w, err := f.Create(ctx, path, o)
	if err != nil {
		return err
	}
	if _, err := w.ReadFrom(r); err != nil {
		w.Abort()
		return err
	}
	return w.Close()
}
