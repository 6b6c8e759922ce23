package files

import (
	"context"
	"fmt"
	"os"
	"slices"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/share"
	"codex.internal/pkg/fileop/fshelper"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/watch"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/wire/pathuri"
)

// watchTable contains the watches of a connection (docs/spec/wire.md §5.13), which
// end with it.
type watchTable struct {
	mu   sync.Mutex
	open map[uint64]*treeWatch

	wg sync.WaitGroup // counts routineChanges
}

// treeWatch is a watch. While it is being started, source is nil.
type treeWatch struct {
	f      *Files
	id     uint64
	source changeSource
	ctx    context.Context // ends with the watch
	cancel context.CancelFunc
	ended  chan struct{} // closed when routineChanges has ended; nil: routineChanges was not started
}

// changeSource yields the changes of one watch.
type changeSource interface {
	// next waits for changes. It returns false after the watch's context has ended.
	next() (*execproto.Changed, bool)
	// close releases the watch. next must not be running.
	close()
}

// WatchRequest is the decoded params of fs/watch.
type WatchRequest struct {
	execproto.WatchParams
	json []byte // JSON text of the params, which aliases the request's message
}

// DecodeWatch decodes the params of fs/watch.
func DecodeWatch(json []byte) (WatchRequest, error) {
	p, err := execproto.Decode[execproto.WatchParams](json)
	return WatchRequest{p, json}, err
}

// Watch answers fs/watch: it starts a watch. It reports no change before the answer.
func (f *Files) Watch(ctx context.Context, p *WatchRequest) (reply.Result, error) {
	path, err := pathuri.Parse(p.Path, f.srv.Home)
	if err != nil {
		return nil, err
	}
	confinement, err := f.conn.Confinement(ctx, p.Sandbox)
	if err != nil {
		return nil, err
	}
	w, err := f.trees.reserve(f, p.WatchID)
	if err != nil {
		return nil, err
	}
	if confinement == nil {
		w.source, err = f.inotify.openTree(ctx, w.ctx, path, p.Recursive)
	} else {
		w.source, err = f.confinedTree(w.ctx, confinement, path, p)
	}
	if err != nil {
		f.trees.take(p.WatchID)
		w.end()
		return nil, err
	}
	w.ended = make(chan struct{})
	return reply.Followed{Result: reply.Done{}, Then: func() { f.trees.wg.Go(w.routineChanges) }}, nil
}

// Unwatch answers fs/unwatch. After the answer the watch reports no change.
func (f *Files) Unwatch(_ context.Context, p *execproto.UnwatchParams) (reply.Result, error) {
	if w := f.trees.take(p.WatchID); w != nil {
		w.end()
	}
	return reply.Done{}, nil
}

// reserve adds a watch before the caller starts it. It returns an error if the id is in use, or
// if there are too many watches.
func (t *watchTable) reserve(f *Files, id uint64) (*treeWatch, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.open[id] != nil:
		return nil, execproto.InvalidRequest(fmt.Sprintf("watch %d already exists", id))
	case len(t.open) >= maxWatches:
		return nil, observe.AtLimit(observe.LimitWatches, execproto.InvalidRequest(fmt.Sprintf("at most %d watches may be open per connection", maxWatches)))
	}
	w := &treeWatch{f: f, id: id}
	w.ctx, w.cancel = context.WithCancel(f.ctx)
	if t.open == nil {
		t.open = make(map[uint64]*treeWatch)
	}
	t.open[id] = w
	return w, nil
}

// take removes a watch and returns it, or nil if there is none.
func (t *watchTable) take(id uint64) *treeWatch {
	t.mu.Lock()
	defer t.mu.Unlock()
	w := t.open[id]
	delete(t.open, id)
	return w
}

// takeThis removes a watch, and reports whether it still existed.
func (t *watchTable) takeThis(w *treeWatch) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[w.id] != w {
		return false
	}
	delete(t.open, w.id)
	return true
}

// closeAll ends every watch at the end of the connection. No request may be running.
func (t *watchTable) closeAll() {
	t.mu.Lock()
	open := t.open
	t.open = nil
	t.mu.Unlock()
	for _, w := range open {
		w.end()
	}
	t.wg.Wait()
}

// end ends the watch and waits for its goroutine. The caller has removed it from the
// table.
func (w *treeWatch) end() {
	w.cancel()
	if w.ended != nil {
		<-w.ended
	}
	w.release()
}

func (w *treeWatch) release() {
	w.cancel()
	if w.source != nil {
		w.source.close()
	}
}

// routineChanges sends the changes of a watch to the client. While the connection's queue is
// full, it reads no changes, and they collect in the kernel's queue. If that queue is full too,
// the client gets an overflow.
//
// routineChanges releases a watch that has ended by itself.
func (w *treeWatch) routineChanges() {
	taken := w.tell()
	close(w.ended)
	if taken {
		w.release()
	}
}

// tell sends changes until the watch is ended, or has ended by itself. It reports whether it
// has removed the watch from the table. It removes it before the last notification, because
// after that notification a client may use the id again.
func (w *treeWatch) tell() (taken bool) {
	for seq := uint64(1); ; {
		n, ok := w.source.next()
		if !ok {
			return false
		}
		if len(n.Events) == 0 && !n.Overflow && n.Ended == "" {
			continue
		}
		n.WatchID, n.Seq = w.id, seq
		seq++
		taken = n.Ended != "" && w.f.trees.takeThis(w)
		if w.f.conn.Send(w.ctx, execproto.Notify(n)) != nil || n.Ended != "" {
			return taken
		}
	}
}

// inotify is the inotify instance of all watches of a connection that this process carries out. It
// counts towards the limit of watches while there are any.
type inotify struct {
	watch.Instance
	account *share.Account

	mu    sync.Mutex
	users int
}

// acquire must be called before a watch is added, and release after it has ended or could not be
// added. The error is the answer to the request.
func (n *inotify) acquire() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users == 0 {
		if err := n.account.Reserve(observe.LimitWatches, 1); err != nil {
			return err
		}
	}
	n.users++
	return nil
}

func (n *inotify) release() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.users--; n.users == 0 {
		n.account.Give(observe.LimitWatches, 1)
	}
}

// serverTree is a watch that this process carries out.
type serverTree struct {
	tree    *watch.Tree
	ending  *watch.Ending
	inotify *inotify
}

// openTree starts a watch in this process, which ends with ctx. opening bounds the start.
func (n *inotify) openTree(opening, ctx context.Context, path string, recursive bool) (_ changeSource, err error) {
	if err := n.acquire(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			n.release()
		}
	}()
	ending, err := watch.NewEnding(ctx)
	if err != nil {
		return nil, execproto.Internal("cannot watch files: " + err.Error())
	}
	tree, err := Blocking(opening, func() (*watch.Tree, error) {
		return fsops.OpenWatch(opening, &n.Instance, path, recursive, ending.Descriptor())
	})
	if err != nil {
		ending.Close()
		return nil, err
	}
	tree.Do = func(f func()) bool {
		_, err := Blocking(ctx, func() (struct{}, error) { f(); return struct{}{}, nil })
		return err == nil
	}
	return &serverTree{tree, ending, n}, nil
}

func (s *serverTree) next() (*execproto.Changed, bool) {
	batch, ok := s.tree.Next()
	return fsops.Changed(&batch), ok
}

func (s *serverTree) close() {
	s.tree.Close()
	s.ending.Close()
	s.inotify.release()
}

// confinedTree is a watch in a helper of its own, which cannot read paths that its sandbox
// hides. A masked path may become visible later, because another process has removed and
// created it again. Therefore each name is also checked against the profile.
type confinedTree struct {
	h           *helper
	account     *share.Account
	ctx         context.Context
	confinement *runner.Confinement
}

// confinedTree starts a watch in a helper, which ends with ctx. The helper never writes.
func (f *Files) confinedTree(ctx context.Context, confinement *runner.Confinement, path string, p *WatchRequest) (_ changeSource, err error) {
	t := &confinedTree{ctx: ctx, account: f.account, confinement: confinement}
	denied, err := Blocking(ctx, func() (bool, error) { return t.denies()(path), nil })
	switch {
	case err != nil:
		return nil, err
	case denied:
		return nil, execproto.InvalidRequest("Permission denied (os error 13): " + path)
	}
	if err := f.account.Reserve(observe.LimitWatches, 1); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			f.account.Give(observe.LimitWatches, 1)
		}
	}()
	h, err := f.srv.startHelper(ctx, readOnly(confinement))
	if err != nil {
		return nil, err
	}
	if _, err := h.ask(execproto.MethodFSWatch, fshelper.Request(execproto.MethodFSWatch, f.srv.Home, p.json, p.Sandbox)...); err != nil {
		_ = h.end()
		return nil, err
	}
	t.h = h
	return t, nil
}

// denies returns a function that reports whether the profile denies reading a path. It uses the
// links and files that exist now.
func (t *confinedTree) denies() func(path string) bool {
	fs := t.confinement.Profile.FileSystem
	if fs.FullRead() {
		return func(string) bool { return false }
	}
	scope := permissions.Scope{Cwd: t.confinement.PolicyCwd, Tmpdir: os.Getenv("TMPDIR")}
	return permissions.Resolve(fs, scope, plan.HostView{}).DeniesRead
}

func (t *confinedTree) next() (*execproto.Changed, bool) {
	n, err := t.line()
	if t.ctx.Err() != nil {
		return nil, false
	}
	if err != nil {
		return &execproto.Changed{Ended: "the watch failed: " + err.Error()}, true
	}
	n.Events, err = Blocking(t.ctx, func() ([]execproto.WatchEvent, error) {
		denied := t.denies()
		return slices.DeleteFunc(n.Events, func(e execproto.WatchEvent) bool {
			path, err := pathuri.Parse(e.Path, "")
			return err != nil || denied(path)
		}), nil
	})
	return n, err == nil
}

// line reads a line of changes from the helper.
func (t *confinedTree) line() (*execproto.Changed, error) {
	text, err := t.h.nextLine()
	if err != nil {
		return nil, t.h.failed(err)
	}
	response, rpc, err := fshelper.ParseAnswer(text, execproto.NotifyFSChanged)
	switch {
	case err != nil:
		return nil, err
	case rpc != nil:
		return nil, rpc
	}
	n, err := execproto.Decode[execproto.Changed](response)
	return &n, err
}

func (t *confinedTree) close() {
	_ = t.h.end()
	t.account.Give(observe.LimitWatches, 1)
}
