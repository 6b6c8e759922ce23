package files

import (
	"context"
	"fmt"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/wire/pathuri"
)

// handleTable holds the open file handles of a connection
// (docs/spec/wire.md §5.4). Requests about one handle run one after the other,
// so a handle is never closed while it is read.
type handleTable struct {
	limit   int
	account *share.Account

	mu   sync.Mutex
	open map[string]*fileHandle
}

// fileHandle is an open file, or one that is being opened: then file is nil.
type fileHandle struct {
	file   openFile
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

// reserve adds a handle before the caller opens its file. It returns an error if the id is in
// use or the table is full.
func (t *handleTable) reserve(id string, h *fileHandle) (*fileHandle, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open[id] != nil:
		return nil, execproto.InvalidRequest(fmt.Sprintf("file read handle `%s` already exists", id))
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
	t.open[id] = h
	return h, nil
}

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

// closeAll closes all handles at the end of the connection. Unfinished atomic writes leave
// their targets unchanged. The connection then closes the account.
func (t *handleTable) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, h := range t.open {
		h.abandon()
		delete(t.open, id)
	}
}

func (h *fileHandle) abandon() {
	if h.file != nil {
		h.file.abandon()
	}
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
	h, err := f.handles.reserve(p.HandleID, &fileHandle{
		mode: p.Mode, atomic: p.Mode == execproto.OpenReplace && p.Atomic, descriptors: descriptorsOf(worker),
	})
	if err != nil {
		return nil, err
	}
	h.file, err = recorded(f, execproto.MethodFSOpen, h.mode, worker, path, func() (openFile, error) { return worker.open(ctx, path, p) })
	if err != nil {
		f.handles.take(p.HandleID)
		return nil, err
	}
	return execproto.OpenResult{HandleID: p.HandleID}, nil
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
	h, err := f.handles.reserve(p.HandleID, &fileHandle{
		mode: mode, atomic: mode == execproto.OpenReplace, packed: true, descriptors: descriptorsOf(worker),
	})
	if err != nil {
		return nil, err
	}
	h.file, err = recorded(f, execproto.MethodFSOpenArchive, mode, worker, path, func() (openFile, error) { return worker.openArchive(f.ctx, path, p) })
	if err != nil {
		f.handles.take(p.HandleID)
		return nil, err
	}
	return execproto.OpenResult{HandleID: p.HandleID}, nil
}

// find returns the open handle with that id, which must have the wanted mode.
func (t *handleTable) find(id string, want execproto.OpenMode) (*fileHandle, error) {
	h := t.get(id)
	if h == nil {
		return nil, unknownHandle(id)
	}
	return h, fsops.CheckMode(id, h.mode, want)
}

// drop closes a handle after a system error, and returns the error.
func (t *handleTable) drop(id string, err error) error {
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
	h, err := f.handles.find(p.HandleID, execproto.OpenRead)
	if err != nil {
		return nil, err
	}
	r, err := h.file.readBlock(ctx, p.Offset, p.Len)
	if err != nil {
		return nil, f.handles.drop(p.HandleID, err)
	}
	return r, nil
}

// WriteBlock answers fs/writeBlock.
func (f *Files) WriteBlock(ctx context.Context, p *execproto.WriteBlockParams) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if err := fsops.CheckWriteLength(len(p.Chunk)); err != nil {
		return nil, err
	}
	h, err := f.handles.find(p.HandleID, execproto.OpenReplace)
	if err != nil {
		return nil, err
	}
	if err := fsops.CheckWriteRange(p.Offset, len(p.Chunk)); err != nil {
		// Codex CLI's server keeps the handle open here. This server closes it, because its
		// clients abandon an atomic write with such a request. Codex CLI has no atomic writes.
		if h.atomic {
			return nil, f.handles.drop(p.HandleID, err)
		}
		return nil, err
	}
	r, err := h.file.writeBlock(ctx, p.Offset, p.Chunk)
	if err != nil {
		return nil, f.handles.drop(p.HandleID, err)
	}
	return r, nil
}

// CloseHandle answers fs/close: it closes a handle after the earlier requests about it. An
// atomic write replaces its target here; if that fails, the error is the answer.
func (f *Files) CloseHandle(ctx context.Context, p *execproto.HandleParams) (reply.Result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	h := f.handles.take(p.HandleID)
	if h == nil {
		return reply.Done{}, nil
	}
	return h.file.close(ctx)
}
