package execclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/wait"
	"codex.internal/pkg/wire/jsonrpc"
	"codex.internal/pkg/wire/pathuri"
)

// ErrNoWatch is the error of Watch on a server without the extension fs/watch.
var ErrNoWatch = errors.New("the server cannot watch files")

// WatchOptions configure FS.Watch.
type WatchOptions struct {
	// Recursive: all directories below the path are watched, too, and those that come.
	Recursive bool
}

// Change is one change of a file. Kind is execproto.WatchCreated and so on. Path is the
// native path of a server on a Unix system, and a URI if it is not one of such a
// system.
type Change struct {
	Path        string
	Kind        string
	IsDirectory bool
}

// Changes is what Watch.Next returns. Overflow means that changes were lost before the
// events: whoever keeps a copy must look at everything again.
type Changes struct {
	Events   []Change
	Overflow bool
}

// WatchEndedError says why the server has ended a watch: for instance because the
// directory was removed.
type WatchEndedError struct{ Reason string }

func (e *WatchEndedError) Error() string { return e.Reason }

// Watch is a watch of a server's files (docs/spec/wire.md §5.13). Its methods may be
// called from any goroutine.
//
// When the connection was lost and the session resumed, the server is asked to watch
// again, and that is told as an overflow.
type Watch struct {
	f      *FS
	params execproto.WatchParams // without the id
	woken  chan struct{}         // something is there to be taken

	mu      sync.Mutex
	id      uint64
	last    uint64 // Seq of the newest notification
	waiting Changes
	err     error // why it has ended
}

// Watch watches a file or directory of the server. What happens after it has returned
// is told by Next. The caller must call Close.
func (f *FS) Watch(ctx context.Context, path string, o WatchOptions) (*Watch, error) {
	if !f.c.Has(execproto.MethodFSWatch) {
		return nil, &fs.PathError{Op: "watch", Path: path, Err: ErrNoWatch}
	}
	w := &Watch{
		f: f, woken: make(chan struct{}, 1),
		params: execproto.WatchParams{Path: pathOf(path), Recursive: o.Recursive, Sandbox: f.sandbox},
	}
	l, err := f.c.live(ctx)
	if err == nil {
		err = w.begin(ctx, l)
	}
	if err != nil {
		w.end(err)
		return nil, pathError("watch", path, err)
	}
	return w, nil
}

// begin asks the server to watch, under a new id.
func (w *Watch) begin(ctx context.Context, l *connection) error {
	c := w.f.c
	params := w.params
	params.WatchID = c.watches.add(w)
	raw, err := encode(execproto.MethodFSWatch, &params)
	if err != nil {
		return err
	}
	m, err := l.call(ctx, execproto.MethodFSWatch, raw)
	if err == nil && m.Kind == jsonrpc.ErrorResponse {
		err = serverError(execproto.MethodFSWatch, m)
	}
	if isDown(err) {
		err = &DisconnectedError{ErrClosed.Error()}
	}
	if err != nil && ctx.Err() != nil {
		// The server may be watching, or begin to: nobody will listen.
		c.unwatch(params.WatchID)
	}
	return err
}

// Next waits for changes and returns them. After the end of the watch it returns the
// changes that came before, and then the reason: a *WatchEndedError, an error of the
// server when the connection came back, the reason of the client's failure, or
// ErrClosed after Close.
func (w *Watch) Next(ctx context.Context) (Changes, error) {
	for {
		w.mu.Lock()
		if n := w.waiting; len(n.Events) > 0 || n.Overflow {
			w.waiting = Changes{}
			w.mu.Unlock()
			return n, nil
		}
		err := w.err
		w.mu.Unlock()
		if err != nil {
			wait.Wake(w.woken)
			return Changes{}, pathError("watch", w.params.Path, err)
		}
		select {
		case <-w.woken:
		case <-ctx.Done():
			return Changes{}, ctx.Err()
		}
	}
}

// Close ends the watch. The server is told, and not waited for.
func (w *Watch) Close() error {
	w.mu.Lock()
	id, over := w.id, w.err != nil
	w.mu.Unlock()
	w.end(ErrClosed)
	if !over {
		w.f.c.unwatch(id)
	}
	return nil
}

// end ends the watch on this side.
func (w *Watch) end(why error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = why
	}
	id := w.id
	w.mu.Unlock()
	w.f.c.watches.remove(id, w)
	// Every Next returns from now on: each wakes the next one.
	wait.Wake(w.woken)
}

// receive takes a notification. More events than are kept become an overflow.
func (w *Watch) receive(n *execproto.Changed) {
	w.mu.Lock()
	if w.id != n.WatchID {
		w.mu.Unlock()
		return // of the connection before
	}
	lost := n.Overflow || n.Seq != w.last+1 || len(w.waiting.Events)+len(n.Events) > maxWatchEvents
	w.last = n.Seq
	if lost {
		w.waiting = Changes{Overflow: true}
	}
	if len(n.Events) <= maxWatchEvents {
		for _, e := range n.Events {
			w.waiting.Events = append(w.waiting.Events, Change{Path: nativePath(e.Path), Kind: e.Kind, IsDirectory: e.IsDirectory})
		}
	}
	w.mu.Unlock()
	if n.Ended != "" {
		w.end(&WatchEndedError{n.Ended})
	}
	wait.Wake(w.woken)
}

// nativePath returns the path of a URI.
func nativePath(uri string) string {
	if path, err := pathuri.Parse(uri, ""); err == nil {
		return path
	}
	return uri
}

// again begins the watch anew on another connection.
func (w *Watch) again(l *connection) {
	err := w.begin(w.f.c.ctx, l)
	switch {
	case err == nil:
		// Not before: a consumer that looks at everything must miss nothing afterwards.
		w.mu.Lock()
		w.waiting.Overflow = true
		w.mu.Unlock()
	case !errors.As(err, new(*DisconnectedError)): // else the next connection does this
		w.end(fmt.Errorf("the watch could not be resumed: %w", err))
	}
	wait.Wake(w.woken)
}

// watches are those of a client, by the ids on its connection.
type watches struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*Watch
}

// add gives a watch a new id.
func (t *watches) add(w *Watch) uint64 {
	t.mu.Lock()
	defer t.mu.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(t.open, w.id)
	t.last++
	w.id, w.last = t.last, 0
	if t.open == nil {
		t.open = make(map[uint64]*Watch)
	}
	if w.err == nil {
		t.open[w.id] = w
	}
	return w.id
}

func (t *watches) remove(id uint64, w *Watch) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.open[id] == w {
		delete(t.open, id)
	}
}

func (t *watches) all() []*Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*Watch, 0, len(t.open))
	for _, w := range t.open {
		list = append(list, w)
	}
	return list
}

func (t *watches) find(id uint64) *Watch {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.open[id]
}

// unwatch tells the server that nobody listens to a watch any more. If the connection is
// lost, the watch has ended with it.
func (c *Client) unwatch(id uint64) {
	c.mu.Lock()
	l, over := c.link, c.state == Failed || c.closing
	if !over {
		c.wg.Add(1)
	}
	c.mu.Unlock()
	if over || l == nil {
		return
	}
	go func() {
		defer c.wg.Done()
		if raw, err := encode(execproto.MethodFSUnwatch, &execproto.UnwatchParams{WatchID: id}); err == nil {
			_, _ = l.call(c.ctx, execproto.MethodFSUnwatch, raw)
		}
	}()
}

// rewatch begins all watches anew on a connection that has replaced another one.
func (c *Client) rewatch(l *connection) {
	for _, w := range c.watches.all() {
		c.wg.Go(func() { w.again(l) })
	}
}
