//go:build linux || darwin

package execserver

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/pathuri"
)

// handleTable holds the open file handles of a connection
// (docs/spec/wire.md §5.4). Requests about one handle run one after the other,
// so a handle is never closed while it is read.
type handleTable struct {
	limit int
	order order // of the requests about a handle, by its id

	mu   sync.Mutex
	open map[string]*fileHandle
}

// fileHandle is an open file: one of read, write and confined is set, or none
// while it is being opened. A confined file is open in its helper.
type fileHandle struct {
	read     *files.ReadHandle
	write    *files.WriteHandle
	confined *helper
	mode     execproto.OpenMode
	atomic   bool // replaces the target only when it is closed
}

func unknownHandle(id string) error {
	return notFound(fmt.Sprintf("unknown file read handle `%s`", shorten(id)))
}

// reserve adds an empty handle with that id. It fails if there is one already or
// the table is full.
func (t *handleTable) reserve(id string) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open[id] != nil:
		return invalid(fmt.Sprintf("file read handle `%s` already exists", id))
	case len(t.open) >= t.limit:
		return invalid(fmt.Sprintf("at most %d file reads may be open per connection", t.limit))
	}
	if t.open == nil {
		t.open = make(map[string]*fileHandle)
	}
	t.open[strings.Clone(id)] = &fileHandle{}
	return nil
}

// get returns an open handle, or nil.
func (t *handleTable) get(id string) *fileHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// take removes a handle and returns it, or nil if there is none.
func (t *handleTable) take(id string) *fileHandle {
	t.mu.Lock()
	defer t.mu.Unlock()
	h := t.open[id]
	delete(t.open, id)
	return h
}

// closeAll closes every handle at the end of the connection. Unfinished atomic
// writes leave their targets as they were.
func (t *handleTable) closeAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, h := range t.open {
		h.abandon()
		delete(t.open, id)
	}
}

func (h *fileHandle) abandon() {
	switch {
	case h.read != nil:
		_ = h.read.Close()
	case h.write != nil:
		_ = h.write.Abort()
	case h.confined != nil:
		_ = h.confined.end()
	}
}

func fsOpen(_ context.Context, c *conn, call *fileParams[execproto.OpenParams]) (result, error) {
	p := &call.params
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	path, err := pathuri.Parse(p.Path, c.srv.home)
	if err != nil {
		return nil, err
	}
	intent, err := c.srv.fileIntent(p.Sandbox)
	if err != nil {
		return nil, err
	}
	table := &c.handles
	if err := table.reserve(p.HandleID); err != nil {
		return nil, err
	}
	h := table.get(p.HandleID)
	h.mode = execproto.OpenRead
	if p.Mode == execproto.OpenReplace {
		h.mode, h.atomic = execproto.OpenReplace, p.Atomic
	}
	switch {
	case intent != nil:
		h.confined, err = c.srv.openConfined(intent, h.mode, call.json)
	case h.mode == execproto.OpenReplace:
		h.write, err = files.OpenWrite(path, files.WriteOptions{Atomic: p.Atomic})
	default:
		h.read, err = files.OpenRead(path)
	}
	if err != nil {
		table.take(p.HandleID)
		return nil, err
	}
	return execproto.OpenResult{HandleID: p.HandleID}, nil
}

// find returns the open handle of that id, which must have the wanted mode.
func (t *handleTable) find(id string, want execproto.OpenMode) (*fileHandle, error) {
	h := t.get(id)
	switch {
	case h == nil:
		return nil, unknownHandle(id)
	case want == execproto.OpenRead && h.mode != want:
		return nil, invalid(fmt.Sprintf("file handle `%s` is open for writing", id))
	case want == execproto.OpenReplace && h.mode != want:
		return nil, invalid(fmt.Sprintf("file handle `%s` is open for reading", id))
	default:
		return h, nil
	}
}

// drop closes a handle after an error of the system, and returns the error.
func (t *handleTable) drop(id string, err error) error {
	if h := t.take(id); h != nil {
		h.abandon()
	}
	return err
}

// askConfined passes a request about a confined handle to its helper.
func (t *handleTable) askConfined(id string, h *fileHandle, method string, line []byte) (result, error) {
	response, err := h.confined.ask(method, line)
	if err != nil {
		return nil, t.drop(id, err)
	}
	return encoded(response), nil
}

func fsReadBlock(_ context.Context, c *conn, p *execproto.ReadBlockParams) (result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if err := fsops.CheckReadLength(p.Len); err != nil {
		return nil, err
	}
	h, err := c.handles.find(p.HandleID, execproto.OpenRead)
	if err != nil {
		return nil, err
	}
	if h.confined != nil {
		return c.handles.askConfined(p.HandleID, h, execproto.MethodFSReadBlock, fshelper.AppendReadBlock(nil, p.Offset, p.Len))
	}
	block := takeBlock(int(p.Len))
	n, eof, err := h.read.ReadAt(*block, p.Offset)
	if err != nil {
		putBlock(block)
		return nil, c.handles.drop(p.HandleID, err)
	}
	return followed{execproto.ReadBlockResult{Chunk: (*block)[:n], EOF: eof}, func() { putBlock(block) }}, nil
}

// blocks holds buffers for fsReadBlock.
var blocks = sync.Pool{New: func() any { b := make([]byte, execproto.MaxBlockBytes); return &b }}

func takeBlock(n int) *[]byte {
	b := blocks.Get().(*[]byte)
	*b = (*b)[:n]
	return b
}

func putBlock(b *[]byte) {
	*b = (*b)[:cap(*b)]
	blocks.Put(b)
}

func fsWriteBlock(_ context.Context, c *conn, p *execproto.WriteBlockParams) (result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	if err := fsops.CheckWriteLength(len(p.Chunk)); err != nil {
		return nil, err
	}
	h, err := c.handles.find(p.HandleID, execproto.OpenReplace)
	if err != nil {
		return nil, err
	}
	if err := fsops.CheckWriteRange(p.Offset, len(p.Chunk)); err != nil {
		// Codex CLI's server keeps the handle. It has no atomic writes:
		// clients abandon one with such a request.
		if h.atomic {
			return nil, c.handles.drop(p.HandleID, err)
		}
		return nil, err
	}
	if h.confined != nil {
		return c.handles.askConfined(p.HandleID, h, execproto.MethodFSWriteBlock, fshelper.AppendWriteBlock(nil, p.Offset, p.Chunk))
	}
	if err := h.write.WriteAt(p.Chunk, p.Offset); err != nil {
		return nil, c.handles.drop(p.HandleID, err)
	}
	return done{}, nil
}

// fsClose closes a handle after the earlier requests about it. An atomic write
// replaces its target here, and the error of that is the answer.
func fsClose(_ context.Context, c *conn, p *execproto.HandleParams) (result, error) {
	if err := fsops.CheckHandleID(p.HandleID); err != nil {
		return nil, err
	}
	h := c.handles.take(p.HandleID)
	var err error
	switch {
	case h == nil:
	case h.confined != nil:
		if _, err = h.confined.ask(execproto.MethodFSClose, fshelper.AppendClose(nil)); err == nil {
			err = h.confined.end()
		} else {
			h.abandon()
		}
	case h.write != nil:
		err = h.write.Close()
	case h.read != nil:
		err = h.read.Close()
	}
	return done{}, err
}
