package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/process"
	"codex.internal/pkg/sandbox/runner"
)

// Options are shared by the requests of all connections of a server.
type Options struct {
	Events *observe.Events
	Home   string // replaces ~ at the beginning of paths
	// CodexHome is the directory below which plugins and skills are installed; "": none.
	CodexHome string
	// MaxHandles bounds the open file handles of a connection, and the atomic writes of a session.
	MaxHandles int

	// Sandboxes returns the runtime that confines helpers. If it returns an error, the error is
	// the answer to the request.
	Sandboxes func() (*runner.Runtime, error)
	// Launcher returns an idle launcher, or nil.
	Launcher   func() *process.Standby
	Supervisor *process.Supervisor // starts helpers

	// ReadsLarge is called with the size of a large file before the file is read and sent in
	// parts.
	ReadsLarge func(size int64)
}

// Conn is the connection of a client, as file requests see it.
type Conn interface {
	// Send appends a message to the queue of the connection, and waits while that is full.
	Send(ctx context.Context, encode func(b []byte) []byte) error
	// Session identifies the client's session for observers.
	Session() observe.Session
	// Writes returns the atomic writes of the client's session; nil: they end with the connection.
	Writes() *Writes
	// MayChange returns an error if the client may not change files by a method.
	MayChange(method string) error
	// MayOpen returns an error if the client may not open a file or an archive in a mode.
	MayOpen(method string, mode execproto.OpenMode) error
	// Confinement returns how a request must be confined whose params have the given sandbox;
	// nil: not at all.
	Confinement(ctx context.Context, sandbox json.RawMessage) (*runner.Confinement, error)
}

// Server answers the file requests of a server.
type Server struct {
	Options
	wg sync.WaitGroup // counts helpers that are still ending after their answer
}

// NewServer returns a Server with these options.
func NewServer(o Options) *Server { return &Server{Options: o} }

// Wait waits until no work of the requests is left. Every connection must have ended.
func (srv *Server) Wait() { srv.wg.Wait() }

// Files has the open handles and watches of a connection. Its methods answer requests. Requests
// about one handle or one watch must run one after the other; other requests may run at the
// same time.
type Files struct {
	srv  *Server
	conn Conn
	ctx  context.Context // ends with the connection
	// account belongs to the connection, which closes it after Files.
	account *share.Account

	handles handleTable
	inotify inotify
	missing missingWatch
	trees   watchTable
}

// New returns the Files of a connection. ctx is the connection's context and has its account.
// The connection closes the Files when it ends.
func (srv *Server) New(ctx context.Context, conn Conn) *Files {
	account := share.From(ctx)
	return &Files{srv: srv, conn: conn, ctx: ctx, account: account, handles: handleTable{limit: srv.MaxHandles, account: account}, inotify: inotify{account: account}}
}

// Close closes all handles and watches, and waits for them. No request may be running. Atomic
// writes belong to the session and stay open.
func (f *Files) Close() {
	f.handles.closeAll()
	f.missing.close()
	f.trees.closeAll()
}

// Request is a decoded file request that is not about a handle.
type Request struct {
	operation *fsops.Operation
	call      fsops.Call
	json      []byte // JSON text of the params, which aliases the request's message
}

// DecoderOf returns the decoder of the params of a file operation.
func DecoderOf(operation *fsops.Operation) func(json []byte) (Request, error) {
	return func(json []byte) (Request, error) {
		call, err := operation.Decode(json)
		return Request{operation, call, json}, err
	}
}

// Run answers a request about paths.
func (f *Files) Run(ctx context.Context, r *Request) (reply.Result, error) {
	if err := r.call.Resolve(f.srv.Home); err != nil {
		return nil, err
	}
	method, changes := r.operation.Method, !r.operation.ReadOnly
	if changes {
		if err := f.conn.MayChange(method); err != nil {
			return nil, err
		}
	}
	worker, err := f.worker(ctx, r.call.Sandbox)
	if err != nil {
		return nil, err
	}
	op := observe.File{Session: f.conn.Session(), Method: method, Changes: changes, Within: tracing.From(ctx)}
	if changes {
		op.Paths = r.call.Paths()
	}
	return observed(f, &op, worker, func() (reply.Result, error) { return worker.run(ctx, r) })
}

// observed carries out a file operation and reports it to observers. An operation that changes
// files is first recorded in the audit trail.
func observed[T any](f *Files, op *observe.File, worker worker, run func() (T, error)) (v T, err error) {
	if w, ok := worker.(confinedFiles); ok {
		op.Policy = w.confinement.Profile
	}
	op.Err = f.srv.Events.FileStarting.Ask(op)
	if op.Err == nil {
		v, op.Err = run()
	}
	f.srv.Events.FileDone.Tell(op)
	return v, op.Err
}

// fileData returns a result of fs/readFile whose data is sent in parts.
func fileData(data reply.Source) reply.Large {
	return reply.Large{Head: `{"dataBase64":"`, Data: data, Tail: `"}`}
}

// content is a file that is being read, by this process or by a helper. Only one goroutine may
// use it at a time.
type content struct {
	io.ReadCloser
	size int64   // the size of the file; 0: unknown
	held *memory // memory that the answer holds until it is sent
}

// contentResult returns a file as the result of fs/readFile, and closes the file.
func (srv *Server) contentResult(c content) (reply.Result, error) {
	if c.size > reply.MaxInline || c.size > uncounted && c.held.grow(reply.MaxInline) != nil {
		return srv.largeContent(c, nil)
	}
	data, ended, err := readUpTo(c, reply.MaxInline, c.size)
	if err == nil && !ended {
		return srv.largeContent(c, data)
	}
	_ = c.Close()
	if err != nil || len(data) <= uncounted {
		c.held.free()
		return execproto.ReadFileResult{DataBase64: data}, err
	}
	c.held.keep(int64(len(data)))
	return reply.Followed{Result: execproto.ReadFileResult{DataBase64: data}, Then: c.held.free, Sent: true}, nil
}

// readUpTo reads at most limit bytes, and reports whether they are all that r has. r probably has
// the expected number of bytes, for which readUpTo allocates memory.
func readUpTo(r io.Reader, limit int, expected int64) (data []byte, ended bool, err error) {
	data = make([]byte, 0, min(int64(limit), expected+1)) // with the one more, a read finds the end
	for len(data) < limit {
		if len(data) == cap(data) {
			data = slices.Grow(data, 4<<10)
		}
		n, err := r.Read(data[len(data):min(cap(data), limit)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, true, nil
		case err != nil:
			return nil, false, err
		}
	}
	return data, false, nil
}

// largeContent returns a large file as the result of fs/readFile. The result closes the file.
// begin is the part that was already read. largeContent reads up to wholeFile bytes before the
// answer begins, so that a read error can still be the answer. It reads less ahead if the
// client's share of the memory is too small. A read error after the beginning of the answer
// closes the connection.
func (srv *Server) largeContent(c content, begin []byte) (reply.Result, error) {
	r := io.MultiReader(bytes.NewReader(begin), c)
	end := func() {
		_ = c.Close()
		c.held.free()
	}
	ahead, whole, err := c.held.readAhead(r, c.size)
	if err != nil {
		end()
		return nil, err
	}
	srv.ReadsLarge(max(c.size, int64(len(ahead))*reply.Chunk))
	data := func(buf []byte) ([]byte, error) {
		if len(ahead) > 0 {
			piece := ahead[0]
			ahead = ahead[1:]
			if whole && len(ahead) == 0 {
				return piece, io.EOF
			}
			return piece, nil
		}
		// This read does not wait for a slot, because the connection sends nothing else
		// meanwhile.
		n, err := io.ReadFull(r, buf)
		return buf[:n], endOfFile(err)
	}
	return reply.Followed{Result: fileData(data), Then: end}, nil
}

// readAhead reads up to wholeFile bytes, as far as the client's share of the memory permits. r
// has size bytes, or if size is 0 or wrong, an unknown number. readAhead returns them in pieces
// of reply.Chunk bytes, of which only the last may be shorter, and reports whether they are all
// that r has.
func (m *memory) readAhead(r io.Reader, size int64) (pieces [][]byte, whole bool, err error) {
	for !whole && len(pieces) < wholeFile/reply.Chunk && m.grow(m.n+reply.Chunk) == nil {
		expected := size - int64(len(pieces))*reply.Chunk
		if size == 0 || expected < 0 {
			expected = reply.Chunk
		}
		var piece []byte
		if piece, whole, err = readUpTo(r, reply.Chunk, expected); err != nil {
			return nil, false, err
		}
		pieces = append(pieces, piece)
	}
	return pieces, whole, nil
}

// endOfFile returns io.EOF for both errors with which io.ReadFull reports the
// end of the input.
func endOfFile(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
