package files

import (
	"context"
	"errors"
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/host/watch"
	"codex.internal/pkg/wire/pathuri"
)

// missingWatch is the only watch for missing paths of a connection, if there is one. The
// connection closes it at its end.
type missingWatch struct {
	mu      sync.Mutex
	asked   bool   // a request has arrived
	last    uint64 // the highest id of the requests
	current *watch.Watch

	wg sync.WaitGroup // counts routineWatch
}

// replace ends the current watch if id is larger than all earlier ids, and reports whether it
// is.
func (m *missingWatch) replace(id uint64) bool {
	m.mu.Lock()
	if m.asked && id <= m.last {
		m.mu.Unlock()
		return false
	}
	m.asked, m.last = true, id
	old := m.current
	m.current = nil
	m.mu.Unlock()
	if old != nil {
		old.Close()
	}
	return true
}

// close ends the current watch and waits for its goroutine. No request may be running.
func (m *missingWatch) close() {
	m.mu.Lock()
	w := m.current
	m.current = nil
	m.mu.Unlock()
	if w != nil {
		w.Close()
	}
	m.wg.Wait()
}

// WatchMissing answers fs/watchMissing (docs/spec/wire.md §5.8): it starts a watch. It reports
// no change before the answer, because Codex CLI ignores a notification with an id that it does
// not know yet.
func (f *Files) WatchMissing(ctx context.Context, p *execproto.WatchMissingParams) (reply.Result, error) {
	missing, present, native, err := f.srv.watchPaths(p)
	if err != nil {
		return nil, err
	}
	if !f.missing.replace(p.WatchID) || !native {
		return execproto.WatchMissingResult{}, nil
	}
	if f.inotify.acquire() != nil {
		return execproto.WatchMissingResult{}, nil
	}
	w, err := Blocking(ctx, func() (*watch.Watch, error) { return watch.New(&f.inotify.Instance, missing, present), nil })
	if w == nil {
		f.inotify.release()
		return execproto.WatchMissingResult{}, err
	}
	f.missing.mu.Lock()
	f.missing.current = w
	f.missing.mu.Unlock()
	return reply.Followed{Result: execproto.WatchMissingResult{Watching: true}, Then: func() {
		f.missing.wg.Go(func() { f.routineWatch(w, p.WatchID) })
	}}, nil
}

// routineWatch notifies the client of the first change, and ends the watch.
func (f *Files) routineWatch(w *watch.Watch, id uint64) {
	changed := w.Wait()
	w.Close()
	f.inotify.release()
	f.missing.mu.Lock()
	changed = changed && f.missing.current == w
	if changed {
		f.missing.current = nil
	}
	f.missing.mu.Unlock()
	if changed {
		_ = f.conn.Send(f.ctx, execproto.Notify(&execproto.MissingChanged{WatchID: id}))
	}
}

// watchPaths returns the native paths of a request. native is false if one of them is on
// another host.
func (srv *Server) watchPaths(p *execproto.WatchMissingParams) (missing []string, present string, native bool, err error) {
	native = true
	convert := func(uri string) string {
		path, parse := pathuri.Parse(uri, srv.Home)
		var elsewhere *pathuri.HostError
		switch {
		case errors.As(parse, &elsewhere):
			native = false
		case parse != nil && err == nil:
			err = execproto.InvalidParams(parse.Error())
		}
		return path
	}
	missing = make([]string, len(p.Missing))
	for i, uri := range p.Missing {
		missing[i] = convert(uri)
	}
	if p.Present != nil {
		present = convert(*p.Present)
	}
	return missing, present, native, err
}
