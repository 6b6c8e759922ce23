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

// handleKey returns the key that orders the requests about one handle.
func handleKey(id string) string { return "handle " + id }

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

// validHandle reports whether a handle can have that id; if not, it has answered.
func (rq *request) validHandle(id string) bool {
	err := fsops.CheckHandleID(id)
	if err != nil {
		rq.fail(err)
	}
	return err == nil
}

func fsOpen(rq *request, p *execproto.OpenParams) {
	if !rq.validHandle(p.HandleID) {
		return
	}
	path, err := pathuri.Parse(p.Path, rq.c.srv.home)
	if err != nil {
		rq.fail(err)
		return
	}
	intent, err := rq.c.srv.fileIntent(p.Sandbox)
	if err != nil {
		rq.fail(err)
		return
	}
	var line []byte
	if intent != nil {
		if line, err = fshelper.AppendRequest(nil, rq.method, rq.params, rq.c.srv.home); err != nil {
			rq.fail(err)
			return
		}
	}
	rq.work(handleKey(p.HandleID), func(context.Context) {
		table := &rq.c.handles
		id := strings.Clone(p.HandleID)
		if err := table.reserve(id); err != nil {
			rq.fail(err)
			return
		}
		h := table.get(id)
		h.mode = execproto.OpenRead
		if p.Mode == execproto.OpenReplace {
			h.mode, h.atomic = execproto.OpenReplace, p.Atomic
		}
		var err error
		switch {
		case intent != nil:
			h.confined, err = rq.c.srv.openConfined(intent, h.mode, line)
		case h.mode == execproto.OpenReplace:
			h.write, err = files.OpenWrite(path, files.WriteOptions{Atomic: p.Atomic})
		default:
			h.read, err = files.OpenRead(path)
		}
		if err != nil {
			table.take(id)
			rq.fail(err)
			return
		}
		rq.result(execproto.OpenResult{HandleID: id})
	})
}

// handle returns the open handle of that id if it has the wanted mode; otherwise
// it answers with an error and returns nil.
func (rq *request) handle(id string, want execproto.OpenMode) *fileHandle {
	h := rq.c.handles.get(id)
	switch {
	case h == nil:
		rq.fail(unknownHandle(id))
	case want == execproto.OpenRead && h.mode != want:
		rq.fail(invalid(fmt.Sprintf("file handle `%s` is open for writing", id)))
	case want == execproto.OpenReplace && h.mode != want:
		rq.fail(invalid(fmt.Sprintf("file handle `%s` is open for reading", id)))
	default:
		return h
	}
	return nil
}

// drop closes a handle after an error of the system, and answers with the error.
func (rq *request) drop(id string, err error) {
	if h := rq.c.handles.take(id); h != nil {
		h.abandon()
	}
	rq.fail(err)
}

// askConfined passes a request about a confined handle to its helper.
func (rq *request) askConfined(id string, h *fileHandle, line []byte) {
	response, err := h.confined.ask(rq.method, line)
	if err != nil {
		rq.drop(id, err)
		return
	}
	rq.respond(func(b []byte) []byte { return append(b, response...) })
}

func fsReadBlock(rq *request, p *execproto.ReadBlockParams) {
	if !rq.validHandle(p.HandleID) {
		return
	}
	if err := fsops.CheckReadLength(p.Len); err != nil {
		rq.fail(err)
		return
	}
	rq.work(handleKey(p.HandleID), func(context.Context) {
		h := rq.handle(p.HandleID, execproto.OpenRead)
		if h == nil {
			return
		}
		if h.confined != nil {
			rq.askConfined(p.HandleID, h, fshelper.AppendReadBlock(nil, p.Offset, p.Len))
			return
		}
		block := takeBlock(int(p.Len))
		defer putBlock(block)
		n, eof, err := h.read.ReadAt(*block, p.Offset)
		if err != nil {
			rq.drop(p.HandleID, err)
			return
		}
		rq.result(execproto.ReadBlockResult{Chunk: (*block)[:n], EOF: eof})
	})
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

func fsWriteBlock(rq *request, p *execproto.WriteBlockParams) {
	if !rq.validHandle(p.HandleID) {
		return
	}
	if err := fsops.CheckWriteLength(len(p.Chunk)); err != nil {
		rq.fail(err)
		return
	}
	rq.work(handleKey(p.HandleID), func(context.Context) {
		h := rq.handle(p.HandleID, execproto.OpenReplace)
		if h == nil {
			return
		}
		if err := fsops.CheckWriteRange(p.Offset, len(p.Chunk)); err != nil {
			// Codex CLI's server keeps the handle. It has no atomic writes:
			// clients abandon one with such a request.
			if h.atomic {
				rq.drop(p.HandleID, err)
			} else {
				rq.fail(err)
			}
			return
		}
		if h.confined != nil {
			rq.askConfined(p.HandleID, h, fshelper.AppendWriteBlock(nil, p.Offset, p.Chunk))
			return
		}
		if err := h.write.WriteAt(p.Chunk, p.Offset); err != nil {
			rq.drop(p.HandleID, err)
			return
		}
		rq.empty()
	})
}

// fsClose closes a handle after the earlier requests about it. An atomic write
// replaces its target here, and the error of that is the answer.
func fsClose(rq *request, p *execproto.HandleParams) {
	if !rq.validHandle(p.HandleID) {
		return
	}
	rq.control(handleKey(p.HandleID), func(context.Context) {
		h := rq.c.handles.take(p.HandleID)
		var err error
		switch {
		case h == nil:
		case h.confined != nil:
			if _, err = h.confined.ask(rq.method, fshelper.AppendClose(nil)); err == nil {
				err = h.confined.end()
			} else {
				h.abandon()
			}
		case h.write != nil:
			err = h.write.Close()
		case h.read != nil:
			err = h.read.Close()
		}
		rq.finish(err)
	})
}
