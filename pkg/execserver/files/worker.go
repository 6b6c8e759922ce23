package files

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// worker carries out file requests, in this process or in a confined helper. Each request gets
// a worker that its sandbox determines.
type worker interface {
	// run carries out a request that is not about a handle.
	run(ctx context.Context, r *Request) (reply.Result, error)
	// open carries out fs/open for a native path.
	open(ctx context.Context, path string, p *OpenRequest) (openFile, error)
	// openArchive carries out fs/openArchive for a native path. ctx ends long reads.
	openArchive(ctx context.Context, path string, p *ArchiveRequest) (openFile, error)
}

// openFile is the file of a handle. After an error of readBlock or writeBlock the caller must
// abandon it. Only one goroutine may use it at a time.
type openFile interface {
	readBlock(ctx context.Context, offset, n uint64) (reply.Result, error)
	writeBlock(ctx context.Context, offset uint64, chunk []byte) (reply.Result, error)
	// close closes the file. An atomic write replaces its target here.
	close(ctx context.Context) (reply.Result, error)
	// abandon closes the file without completing an atomic write.
	abandon()
}

// worker returns the worker for a request whose params have the given sandbox.
func (f *Files) worker(ctx context.Context, raw json.RawMessage) (worker, error) {
	confinement, err := f.conn.Confinement(ctx, raw)
	if err != nil {
		return nil, err
	}
	if confinement == nil {
		return serverFiles{f.srv}, nil
	}
	return confinedFiles{f.srv, confinement}, nil
}

// serverFiles carries out requests in this process.
type serverFiles struct{ srv *Server }

func (w serverFiles) run(ctx context.Context, r *Request) (reply.Result, error) {
	run := func() (fsops.Result, error) { return r.call.Run(ctx, false) }
	if m := r.operation.Method; m == execproto.MethodFSReadDirectory || m == execproto.MethodFSListAttributes {
		return listing(ctx, r.call.Paths()[0], run)
	}
	return Blocking(ctx, func() (reply.Result, error) {
		got, err := run()
		if err != nil {
			return nil, err
		}
		if got.Content != nil {
			return w.srv.contentResult(content{got.Content, got.Content.Size, &memory{account: share.From(ctx)}})
		}
		return got.Value, nil
	})
}

func (serverFiles) open(ctx context.Context, path string, p *OpenRequest) (openFile, error) {
	return Blocking(ctx, func() (openFile, error) {
		f, err := fsops.OpenFile(path, &p.OpenParams, false)
		if err != nil {
			return nil, err
		}
		return serverFile{f}, nil
	})
}

func (serverFiles) openArchive(ctx context.Context, path string, p *ArchiveRequest) (openFile, error) {
	return Blocking(ctx, func() (openFile, error) {
		f, err := fsops.OpenArchive(ctx, path, &p.OpenArchiveParams, false)
		if err != nil {
			return nil, err
		}
		return serverFile{f}, nil
	})
}

// serverFile is a file that this process has opened.
type serverFile struct{ f *fsops.File }

// readBlock waits for memory outside of Blocking: see listing.
func (f serverFile) readBlock(ctx context.Context, offset, n uint64) (reply.Result, error) {
	m, err := waitMemory(ctx, execproto.MaxBlockBytes)
	if err != nil {
		return nil, err
	}
	b := blocks.Get().(*[]byte)
	free := func() {
		blocks.Put(b)
		m.free()
	}
	r, err := Blocking(ctx, func() (r execproto.ReadBlockResult, err error) {
		got, eof, err := f.f.ReadBlock((*b)[:n], offset)
		return execproto.ReadBlockResult{Chunk: (*b)[:got], EOF: eof}, err
	})
	if err != nil {
		free()
		return nil, err
	}
	return reply.Followed{Result: r, Then: free}, nil
}

func (f serverFile) writeBlock(ctx context.Context, offset uint64, chunk []byte) (reply.Result, error) {
	return Blocking(ctx, func() (reply.Result, error) {
		err := f.f.WriteBlock(chunk, offset)
		return f.f.Told(), err
	})
}

// close closes the file even if ctx has ended, because its handle no longer exists.
func (f serverFile) close(ctx context.Context) (reply.Result, error) {
	return Blocking(context.WithoutCancel(ctx), func() (reply.Result, error) {
		err := f.f.Close()
		return f.f.Told(), err
	})
}

func (f serverFile) abandon() {
	f.f.Abandon() // at the end of a connection, which must not wait for others
}

// blocks holds buffers of execproto.MaxBlockBytes for readBlock.
var blocks = sync.Pool{New: func() any { b := make([]byte, execproto.MaxBlockBytes); return &b }}

// confinedFiles carries out each request in a helper of its own.
type confinedFiles struct {
	srv         *Server
	confinement *runner.Confinement
}

func (w confinedFiles) run(ctx context.Context, r *Request) (result reply.Result, err error) {
	request := fshelper.Request(r.operation.Method, w.srv.Home, r.json, r.call.Sandbox)
	confinement := w.confinement
	if r.operation.ReadOnly {
		confinement = readOnly(confinement)
	}
	// A change does not wait for memory: its answer is small. Scenario: a client sends as many
	// large files at a time as fit into its share. The messages hold all of the share, so that
	// each write would wait for the others.
	m := &memory{account: share.From(ctx)}
	if r.operation.ReadOnly {
		if m, err = waitMemory(ctx, helperRoom); err != nil {
			return nil, err
		}
	}
	h, err := w.srv.startHelper(ctx, confinement)
	if err != nil {
		m.free()
		return nil, err
	}
	h.memory = m
	if r.operation.Method == execproto.MethodFSReadFile {
		file, err := h.readFile(request...)
		if err != nil {
			m.free()
			_ = h.end()
			return nil, err
		}
		return w.srv.contentResult(content{file, 0, m})
	}
	response, err := h.ask(r.operation.Method, request...)
	if r.operation.ReadOnly {
		// The helper has nothing to clean up, so the answer does not wait for its end.
		w.srv.wg.Go(func() { _ = h.end() })
		return m.holding(response, err)
	}
	// Wait for the launcher, even after a failed request: it removes its placeholders at the
	// end. When this function returns, its context ends, which kills a launcher that is still
	// cleaning up.
	if ended := h.end(); err == nil {
		err = ended
	}
	return m.holding(response, err)
}

// open opens a file in a helper of its own. Closing the helper's input ends the helper. A
// context does not, because a killed helper leaves the temporary file of an atomic write
// behind.
func (w confinedFiles) open(ctx context.Context, _ string, p *OpenRequest) (openFile, error) {
	return w.openHandle(ctx, execproto.MethodFSOpen, p.Mode, p.json, p.Sandbox)
}

func (w confinedFiles) openHandle(ctx context.Context, method string, mode execproto.OpenMode, params []byte, sandbox json.RawMessage) (openFile, error) {
	confinement := w.confinement
	if mode != execproto.OpenReplace {
		confinement = readOnly(confinement)
	}
	h, err := w.srv.startHelper(context.Background(), confinement)
	if err != nil {
		return nil, err
	}
	if _, err := h.ask(method, fshelper.Request(method, w.srv.Home, params, sandbox)...); err != nil {
		_ = h.end()
		return nil, err
	}
	return confinedFile{h}, nil
}

// openArchive opens an archive in a helper of its own, which ends like the helper of a file.
// When ctx ends, a helper that reads an archive is killed.
func (w confinedFiles) openArchive(ctx context.Context, _ string, p *ArchiveRequest) (openFile, error) {
	mode := fsops.ModeOf(p.Mode)
	f, err := w.openHandle(ctx, execproto.MethodFSOpenArchive, mode, p.json, p.Sandbox)
	if err == nil && mode == execproto.OpenRead {
		h := f.(confinedFile).h
		h.unhook = context.AfterFunc(ctx, h.child.Kill)
	}
	return f, err
}

// confinedFile is a file that a helper has opened.
type confinedFile struct{ h *helper }

func (f confinedFile) readBlock(ctx context.Context, offset, n uint64) (reply.Result, error) {
	m, err := waitMemory(ctx, 2*execproto.MaxBlockBytes) // for the text of the answer
	if err != nil {
		return nil, err
	}
	response, err := f.h.ask(execproto.MethodFSReadBlock, fshelper.AppendReadBlock(nil, offset, n))
	if err != nil {
		m.free()
		return nil, err
	}
	free := func() {
		f.h.answer, f.h.told = nil, 0
		m.free()
	}
	return reply.Followed{Result: reply.Encoded(response), Then: free}, nil
}

func (f confinedFile) writeBlock(_ context.Context, offset uint64, chunk []byte) (reply.Result, error) {
	response, err := f.h.ask(execproto.MethodFSWriteBlock, fshelper.AppendWriteBlock(nil, offset, chunk))
	return reply.Encoded(response), err
}

func (f confinedFile) close(context.Context) (reply.Result, error) {
	response, err := f.h.ask(execproto.MethodFSClose, fshelper.AppendClose(nil))
	if ended := f.h.end(); err == nil {
		err = ended
	}
	return reply.Encoded(response), err
}

func (f confinedFile) abandon() { _ = f.h.end() }

// readOnly returns a copy of the confinement without write access. The launcher must
// still know the writable paths, because it treats links in them differently.
// Therefore the copy keeps the entries and sets Reading. With Landlock's legacy
// mode, which ignores Reading, it makes the entries themselves read-only.
func readOnly(confinement *runner.Confinement) *runner.Confinement {
	reading := *confinement
	if !confinement.LegacyLandlock {
		reading.Reading = true
		return &reading
	}
	reading.Profile.FileSystem.Entries = slices.Clone(confinement.Profile.FileSystem.Entries)
	for i := range reading.Profile.FileSystem.Entries {
		if e := &reading.Profile.FileSystem.Entries[i]; e.Access == permissions.Write {
			e.Access = permissions.Read
		}
	}
	return &reading
}
