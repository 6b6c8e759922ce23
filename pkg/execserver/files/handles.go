package files

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/wire/pathuri"
)

// handleTable holds the open file handles of a connection, or the atomic writes of a session
// (docs/spec/wire.md §5.4).
type handleTable struct {
	limit   int
	account *share.Account

	mu     sync.Mutex
	open   map[string]*fileHandle
	closed bool
}

// Writes holds the atomic writes of a session. They outlast a connection. Scenario: a connection is
// lost after 9 GB of an upload of 10 GB. The client resumes the session, and sends the rest.
type Writes struct{ handleTable }

// NewWrites returns an empty table, whose files take their descriptors from the account. The
// session closes the table before the account.
func (srv *Server) NewWrites(account *share.Account) *Writes {
	return &Writes{handleTable{limit: srv.MaxHandles, account: account}}
}

// Close closes all handles, and waits for their running requests. The targets of the writes stay
// unchanged.
func (w *Writes) Close() { w.closeAll() }

// fileHandle is an open file. Only the holder of turn uses file.
//
// The requests of one connection about one handle run one after the other, but an atomic write may
// also have a late request of the connection before.
type fileHandle struct {
	turn chan struct{} // has an element while a request uses the file
	file openFile      // nil: the file could not be opened, or is closed

	mode   execproto.OpenMode
	atomic bool // its file must be abandoned and not only closed: it replaces its target, or extracts an archive
	packed bool // the file is an archive
	// descriptors is how many the handle takes of the client's share.
	descriptors int64
}

// descriptorsOf returns how many descriptors an open file of a worker takes.
func descriptorsOf(w worker) int64 {
	if _, ok := w.(confinedFiles); ok {
		return helperDescriptors
	}
	return 1
}

func unknownHandle(id string) error {
	return execproto.NotFound(fmt.Sprintf("unknown file read handle `%s`", observe.Short(id)))
}

func existingHandle(id string) error {
	return execproto.InvalidRequest(fmt.Sprintf("file read handle `%s` already exists", id))
}

// reserve adds a handle before the caller opens its file. The caller has the handle's turn.
// reserve returns an error if the id is in use or the table is full.
func (t *handleTable) reserve(id string, h *fileHandle) (*fileHandle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.closed:
		return nil, execproto.InvalidRequest("the session has ended")
	case t.open[id] != nil:
		return nil, existingHandle(id)
	case len(t.open) >= t.limit:
		return nil, observe.AtLimit(observe.LimitHandles, execproto.InvalidRequest(fmt.Sprintf("at most %d file reads may be open per connection", t.limit)))
	case h.packed && t.archives() >= execproto.MaxArchives:
		return nil, observe.AtLimit(observe.LimitArchives, execproto.InvalidRequest(fmt.Sprintf("at most %d archives may be open per connection", execproto.MaxArchives)))
	}
	if err := t.account.Reserve(observe.LimitDescriptors, h.descriptors); err != nil {
		return nil, err
	}
	if t.open == nil {
		t.open = make(map[string]*fileHandle)
	}
	h.turn = make(chan struct{}, 1)
	h.turn <- struct{}{}
	t.open[id] = h
	return h, nil
}

// enter waits for the handle's turn. It returns an error if the file is closed, or if ctx ends
// first. The caller calls leave afterwards.
func (h *fileHandle) enter(ctx context.Context, id string) error {
	select {
	case h.turn <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	if h.file == nil {
		h.leave()
		return unknownHandle(id)
	}
	return nil
}

func (h *fileHandle) leave() { <-h.turn }

// archives counts the handles of archives.
func (t *handleTable) archives() int {
	n := 0
	for _, h := range t.open {
		if h.packed {
			n++
		}
	}
	return n
}

// get returns an open handle, or nil.
func (t *handleTable) get(id string) *fileHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// take removes a handle and returns it, or nil if it does not exist.
func (t *handleTable) take(id string) *fileHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.open[id]
	if h != nil {
		delete(t.open, id)
		t.account.Give(observe.LimitDescriptors, h.descriptors)
	}
	return h
}

// closeAll closes all handles at the end of the connection or of the session. Unfinished atomic
// writes leave their targets unchanged. The owner of the table then closes the account.
func (t *handleTable) closeAll() {
	t.mu.Lock()
	t.closed = true
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for _, h := range open {
		h.turn <- struct{}{}
		h.abandon()
		h.leave()
	}
}

// abandon closes the file without completing an atomic write. The caller has the handle's turn.
func (h *fileHandle) abandon() {
	if h.file != nil {
		h.file.abandon()
	}
	h.file = nil
}

// OpenRequest is the decoded params of fs/open.
type OpenRequest struct {
	execproto.OpenParams
	json []byte // JSON text of the params, which aliases the request's message
}

// DecodeOpen decodes the params of fs/open.
func DecodeOpen(json []byte) (OpenRequest, error) {
	p, err := execproto.Decode[execproto.OpenParams](json)
	return OpenRequest{p, json}, err
}

// Open answers fs/open.
func (f *Files) Open(ctx context.Context, p *OpenRequest) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	path, err := pathuri.Parse(p.Path, f.srv.Home)
	if err != nil {
		return nil, err
	}
	if err := f.conn.MayOpen(execproto.MethodFSOpen, p.Mode); err != nil {
		return nil, err
	}
	worker, err := f.worker(ctx, p.Sandbox)
	if err != nil {
		return nil, err
	}
	t, atomic := &f.handles, p.Mode == execproto.OpenReplace && p.Atomic
	if w := f.conn.Writes(); w != nil && atomic {
		t = &w.handleTable
	}
	return f.opened(t, p.HandleID, &fileHandle{mode: p.Mode, atomic: atomic, descriptors: descriptorsOf(worker)}, func() (openFile, error) {
		return recorded(f, execproto.MethodFSOpen, p.Mode, worker, path, func() (openFile, error) { return worker.open(ctx, path, p) })
	})
}

// opened adds a handle to a table and opens its file.
func (f *Files) opened(t *handleTable, id string, h *fileHandle, open func() (openFile, error)) (reply.Result, error) {
	if f.table(id).get(id) != nil {
		return nil, existingHandle(id)
	}
	h, err := t.reserve(id, h)
	if err != nil {
		return nil, err
	}
	defer h.leave()
	if h.file, err = open(); err != nil {
		t.take(id)
		return nil, err
	}
	return execproto.OpenResult{HandleID: id}, nil
}

// table returns the table that has a handle with that id, or else the table of the connection.
func (f *Files) table(id string) *handleTable {
	if w := f.conn.Writes(); w != nil && w.get(id) != nil {
		return &w.handleTable
	}
	return &f.handles
}

// recorded opens a file. If the file is opened for writing, recorded first records that in the
// audit trail.
func recorded(f *Files, method string, mode execproto.OpenMode, worker worker, path string, open func() (openFile, error)) (openFile, error) {
	if mode == execproto.OpenRead {
		return open()
	}
	return observed(f, &observe.File{Session: f.conn.Session(), Method: method, Changes: true, Paths: []string{path}}, worker, open)
}

// ArchiveRequest is the decoded params of fs/openArchive.
type ArchiveRequest struct {
	execproto.OpenArchiveParams
	json []byte // JSON text of the params, which aliases the request's message
}

// DecodeArchive decodes the params of fs/openArchive.
func DecodeArchive(json []byte) (ArchiveRequest, error) {
	p, err := execproto.Decode[execproto.OpenArchiveParams](json)
	return ArchiveRequest{p, json}, err
}

// OpenArchive answers fs/openArchive: it opens a handle for an archive. Requests about the
// handle work like those about a file.
func (f *Files) OpenArchive(ctx context.Context, p *ArchiveRequest) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	path, err := pathuri.Parse(p.Path, f.srv.Home)
	if err != nil {
		return nil, err
	}
	mode := fsops.ModeOf(p.Mode)
	if err := f.conn.MayOpen(execproto.MethodFSOpenArchive, mode); err != nil {
		return nil, err
	}
	worker, err := f.worker(ctx, p.Sandbox)
	if err != nil {
		return nil, err
	}
	h := &fileHandle{mode: mode, atomic: mode == execproto.OpenReplace, packed: true, descriptors: descriptorsOf(worker)}
	return f.opened(&f.handles, p.HandleID, h, func() (openFile, error) {
		return recorded(f, execproto.MethodFSOpenArchive, mode, worker, path, func() (openFile, error) { return worker.openArchive(f.ctx, path, p) })
	})
}

// use calls run with the open handle of that id, which must have the wanted mode, and with its
// table. No other request uses the handle meanwhile.
func (f *Files) use(ctx context.Context, id string, want execproto.OpenMode, run func(t *handleTable, h *fileHandle) (reply.Result, error)) (reply.Result, error) {
	t := f.table(id)
	h := t.get(id)
	if h == nil {
		return nil, unknownHandle(id)
	}
	if err := fsops.CheckMode(id, h.mode, want); err != nil {
		return nil, err
	}
	if err := h.enter(ctx, id); err != nil {
		return nil, err
	}
	defer h.leave()
	return run(t, h)
}

// drop closes a handle after a system error, and returns the error. The caller has the handle's
// turn. If the error is that of a request which ended with its connection before it used the file,
// the handle stays open.
func (t *handleTable) drop(id string, err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	if h := t.take(id); h != nil {
		h.abandon()
	}
	return err
}

// ReadBlock answers fs/readBlock.
func (f *Files) ReadBlock(ctx context.Context, p *execproto.ReadBlockParams) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if err := fsops.CheckReadLength(p.Len); err != nil {
		return nil, err
	}
	return f.use(ctx, p.HandleID, execproto.OpenRead, func(t *handleTable, h *fileHandle) (reply.Result, error) {
		r, err := h.file.readBlock(ctx, p.Offset, p.Len)
		if err != nil {
			return nil, t.drop(p.HandleID, err)
		}
		return r, nil
	})
}

// WriteBlock answers fs/writeBlock.
func (f *Files) WriteBlock(ctx context.Context, p *execproto.WriteBlockParams) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if err := fsops.CheckWriteLength(len(p.Chunk)); err != nil {
		return nil, err
	}
	return f.use(ctx, p.HandleID, execproto.OpenReplace, func(t *handleTable, h *fileHandle) (reply.Result, error) {
		if err := fsops.CheckWriteRange(p.Offset, len(p.Chunk)); err != nil {
			// Codex CLI's server keeps the handle open here. This server closes it, because its
			// clients abandon an atomic write with such a request. Codex CLI has no atomic writes.
			if h.atomic {
				return nil, t.drop(p.HandleID, err)
			}
			return nil, err
		}
		r, err := h.file.writeBlock(ctx, p.Offset, p.Chunk)
		if err != nil {
			return nil, t.drop(p.HandleID, err)
		}
		return r, nil
	})
}

// CloseHandle answers fs/close: it closes a handle after the earlier requests about it. An
// atomic write replaces its target here; if that fails, the error is the answer.
func (f *Files) CloseHandle(ctx context.Context, p *execproto.HandleParams) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	t := f.table(p.HandleID)
	h := t.get(p.HandleID)
	if h == nil {
		return reply.Done{}, nil
	}
	if err := h.enter(ctx, p.HandleID); err != nil {
		return nil, err
	}
	defer h.leave()
	if t.take(p.HandleID) == nil {
		return nil, unknownHandle(p.HandleID) // the session has ended, and closeAll waits for the turn
	}
	file := h.file
	h.file = nil
	return file.close(ctx)
}
