package execserver

import (
	"context"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/sandbox/runner"
)

// helperPool starts confined helpers before a request needs them, which saves
// the request the wait for the start. A helper still serves one request only.
//
// A helper sees the files as its sandbox was made at its start. The pool is
// therefore used only for requests that change nothing, under policies that
// deny reads of nothing, or of paths whose identities have not changed: other masks
// could be out of date. A helper is started ahead if its policy was used twice within
// idleHelperTime; an idle helper is ended after that time.
type helperPool struct {
	srv  *Server
	stop chan struct{} // closed: idle helpers end, and no more are started

	mu   sync.Mutex
	used map[string]time.Time // when each policy was used last
	idle []*idleHelper
}

// idleHelper is an idle helper; the goroutine of fill ends it unless a request
// takes it.
type idleHelper struct {
	*helper
	asked string        // keyOf what the client had asked for
	key   string        // fullKeyOf the request for which it was started
	taken chan struct{} // closed when a request has taken it
}

func newHelperPool(srv *Server) *helperPool {
	return &helperPool{srv: srv, stop: make(chan struct{}), used: make(map[string]time.Time)}
}

// ask has a helper answer a request that changes nothing, and returns the response as helper.ask does. The
// helper is killed when ctx ends.
//
// A helper that was started ahead gets the request before the server looks at the disk, and works
// meanwhile. Its answer is used if the look shows that its sandbox is still the one of the request.
func (p *helperPool) ask(ctx context.Context, file *fileIntent, method string, request [][]byte) ([]byte, error) {
	asked := keyOf(&file.draft)
	ready := p.sendAhead(ctx, asked, request)
	var key string
	intent, err := withThread(ctx, func() (*runner.Intent, error) {
		key = fullKeyOf(file)
		return readOnly(file.hide()), nil
	})
	if ready != nil && (err != nil || ready.key != key) {
		p.discard(ready)
		ready = nil
	}
	if err != nil {
		return nil, err
	}
	var h *helper
	if ready != nil {
		h = ready.helper
	} else if h, err = p.send(ctx, intent, request); err != nil {
		return nil, err
	}
	if key != "" && p.note(asked) {
		h.next = func() { p.fill(asked, key, intent) }
	}
	response, err := h.receive(method)
	if err != nil && h.ahead && !h.answered && ctx.Err() == nil {
		// Its sandbox may have been refused for something that was there for a moment.
		h.next = nil
		p.srv.wg.Go(h.retire)
		if h, err = p.send(ctx, intent, request); err != nil {
			return nil, err
		}
		response, err = h.receive(method)
	}
	// A helper that only reads has nothing to clean up, so the answer does not
	// wait for its end.
	p.srv.wg.Go(h.retire)
	return response, err
}

// sendAhead sends a request to a helper that was started ahead for what it asks for; nil: there is none.
func (p *helperPool) sendAhead(ctx context.Context, asked string, request [][]byte) *idleHelper {
	ready := p.take(asked)
	if ready == nil {
		return nil
	}
	ready.ahead, ready.unhook = true, context.AfterFunc(ctx, ready.child.Kill)
	if ready.send(request...) != nil {
		p.discard(ready)
		return nil
	}
	return ready
}

// send starts a helper and sends it a request.
func (p *helperPool) send(ctx context.Context, intent *runner.Intent, request [][]byte) (*helper, error) {
	h, err := p.srv.startHelper(ctx, intent)
	if err != nil {
		return nil, err
	}
	if err := h.send(request...); err != nil {
		_ = h.end()
		return nil, err
	}
	return h, nil
}

// discard ends a helper whose answer is not used. Nothing reads the request after that.
func (p *helperPool) discard(h *idleHelper) {
	h.child.Kill()
	_ = h.child.Stdin.Close()
	h.writing.Wait()
	p.srv.wg.Go(func() { _ = h.end() })
}

// keyOf names the helpers that may serve requests with an intent, by what it says; "": there are none.
func keyOf(intent *runner.Intent) string {
	if intent.Within != "" {
		return ""
	}
	return string(intent.Profile.AppendJSON(append([]byte(intent.PolicyCwd), 0)))
}

// fullKeyOf is keyOf with what the server hides, and with the identities of what is denied. It looks at the disk.
func fullKeyOf(file *fileIntent) string {
	key := keyOf(file.hide())
	if key == "" {
		return ""
	}
	identities, reads := readsAllBut(file)
	if !reads {
		return ""
	}
	return key + identities
}

// take returns an idle helper for what a request asks for, or nil.
func (p *helperPool) take(asked string) *idleHelper {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := slices.IndexFunc(p.idle, func(h *idleHelper) bool { return h.asked == asked })
	if i < 0 {
		return nil
	}
	ready := p.idle[i]
	p.idle = slices.Delete(p.idle, i, i+1)
	close(ready.taken)
	return ready
}

// note notes that a policy is used, and reports whether a helper should be started ahead for it.
func (p *helperPool) note(asked string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	last, known := p.used[asked]
	if !known && len(p.used) >= maxHelperPolicies {
		for k, used := range p.used {
			if now.Sub(used) > idleHelperTime {
				delete(p.used, k)
			}
		}
		if len(p.used) >= maxHelperPolicies {
			return false
		}
	}
	p.used[asked] = now
	return known && now.Sub(last) < idleHelperTime && len(p.idle) < maxIdleHelpers
}

// fill starts a helper, and ends it unless a request takes it in time.
func (p *helperPool) fill(asked, key string, intent *runner.Intent) {
	select {
	case <-p.stop:
		return
	default:
	}
	h, err := p.srv.startHelperBy(context.Background(), intent, noLauncher)
	if err != nil {
		return // a request that starts a helper itself gets the error
	}
	waiting := &idleHelper{helper: h, asked: asked, key: key, taken: make(chan struct{})}
	p.mu.Lock()
	p.idle = append(p.idle, waiting)
	p.mu.Unlock()
	expire := time.NewTimer(idleHelperTime)
	defer expire.Stop()
	select {
	case <-waiting.taken:
		return
	case <-expire.C:
	case <-p.stop:
	}
	p.mu.Lock()
	i := slices.Index(p.idle, waiting)
	if i >= 0 {
		p.idle = slices.Delete(p.idle, i, i+1)
	}
	p.mu.Unlock()
	if i >= 0 {
		_ = h.end()
	}
}
