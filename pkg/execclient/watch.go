package execclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
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
	// Recursive also watches all directories below the path, and new ones.
	Recursive bool
}

// Change is one change of a file. Kind is execproto.WatchCreated and so on. Path is the native
// path of a Unix server, and otherwise a URI.
type Change struct {
	Path        string
	Kind        string
	IsDirectory bool
}

// Changes is the result of Watch.Next. Overflow means that changes before the events were
// lost: a consumer that keeps a copy must compare everything again.
type Changes struct {
	Events   []Change
	Overflow bool
}

// WatchEndedError is the server's reason for ending a watch, for example that the directory
// was removed.
type WatchEndedError struct{ Reason string }

func (e *WatchEndedError) Error() string { return e.Reason }

// Watch watches files of a server (docs/spec/wire.md §5.13). Its methods may be called from
// any goroutine.
//
// After a lost connection, the client asks the server to watch again, and Next returns an
// overflow.
type Watch struct {
	f      *FS
	params execproto.WatchParams // without the id
	woken  chan struct{}         // wakes Next

	mu      sync.Mutex
	id      uint64
	last    uint64 // Seq of the newest notification
	waiting Changes
	err     error // the reason for the end of the watch
}

// Watch watches a file or directory of the server. Next returns the changes that happen after
// Watch has returned. The caller must call Close.
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

// begin sends the request for the watch, under a new id.
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
		err = &DisconnectedError{Message: ErrClosed.Error()}
	}
	if err != nil && ctx.Err() != nil {
		// The server may be watching, or begin to.
		c.unwatch(params.WatchID)
	}
	return err
}

// Next waits for changes and returns them. After the end of the watch it returns the earlier
// changes, and then the reason: a *WatchEndedError, an error of the server after a lost
// connection, the error of the failed client, or ErrClosed after Close.
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

// Close ends the watch. It does not wait for the server.
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

// end ends the watch locally.
func (w *Watch) end(why error) {
	w.mu.Lock()
	if w.err == nil {
		w.err = why
	}
	id := w.id
	w.mu.Unlock()
	w.f.c.watches.remove(id, w)
	// From now on every Next returns: each wakes the next one.
	wait.Wake(w.woken)
}

// receive handles a notification. Too many events become an overflow.
func (w *Watch) receive(n *execproto.Changed) {
	w.mu.Lock()
	if w.id != n.WatchID {
		w.mu.Unlock()
		return // it is from the previous connection
	}
	for _, e := range n.Events {
		if !slices.Contains(execproto.WatchKinds, e.Kind) {
			w.mu.Unlock()
			w.end(fmt.Errorf("the server reports a change of a kind that the protocol does not know: %.40q", e.Kind))
			return
		}
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

// again watches on a new connection.
func (w *Watch) again(l *connection) {
	err := w.begin(w.f.c.ctx, l)
	switch {
	case err == nil:
		// The overflow is reported only after the answer: from then on, the consumer must not
		// miss any change.
		w.mu.Lock()
		w.waiting.Overflow = true
		w.mu.Unlock()
	case !errors.As(err, new(*DisconnectedError)): // otherwise the next connection does this
		w.end(fmt.Errorf("the watch could not be resumed: %w", err))
	}
	wait.Wake(w.woken)
}

// watches has the watches of a client, by their ids on its connection.
type watches struct {
	mu   sync.Mutex
	last uint64
	open map[uint64]*Watch
}

// add registers a watch under a new id.
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

// unwatch asks the server to end a watch. If the connection is lost, the watch has ended with
// it.
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

// rewatch begins all watches on a new connection.
func (c *Client) rewatch(l *connection) {
	for _, w := range c.watches.all() {
		c.wg.Go(func() { w.again(l) })
	}
}
