//go:build linux || darwin

package execserver

import (
	"context"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/sandbox/launch"
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
	key   string
	taken chan struct{}
}

func newHelperPool(srv *Server) *helperPool {
	return &helperPool{srv: srv, stop: make(chan struct{}), used: make(map[string]time.Time)}
}

// start returns a helper for a request that changes nothing. It is killed when
// ctx ends. The caller ends it with retire.
func (p *helperPool) start(ctx context.Context, file *fileIntent) (*helper, error) {
	intent := readOnly(&file.Intent)
	key, err := p.keyOf(ctx, file, intent)
	if err != nil {
		return nil, err
	}
	if key == "" {
		return p.srv.startHelper(ctx, intent)
	}
	ready, again := p.take(key)
	var h *helper
	if ready != nil {
		h = ready.helper
		h.ahead = true
		h.unhook = context.AfterFunc(ctx, h.child.Kill)
	} else if started, err := p.srv.startHelper(ctx, intent); err != nil {
		return nil, err
	} else {
		h = started
	}
	if again {
		h.next = func() { p.fill(key, intent) }
	}
	return h, nil
}

// keyOf names helpers that may serve each other's requests; "": there are none. intent is that of
// the helper.
func (p *helperPool) keyOf(ctx context.Context, file *fileIntent, intent *launch.Intent) (string, error) {
	if intent.Within != "" {
		return "", nil
	}
	var hidden string
	if !intent.Profile.FileSystem.FullRead() {
		sum, err := withThread(ctx, func() (string, error) { sum, _ := readsAllBut(file); return sum, nil })
		if err != nil || sum == "" {
			return "", err
		}
		hidden = sum
	}
	return string(intent.Profile.AppendJSON(append([]byte(intent.PolicyCwd), 0))) + hidden, nil
}

// take returns an idle helper for a policy, or nil, and whether another one
// should be started ahead.
func (p *helperPool) take(key string) (ready *idleHelper, again bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	last, known := p.used[key]
	if !known && len(p.used) >= maxHelperPolicies {
		for k, used := range p.used {
			if now.Sub(used) > idleHelperTime {
				delete(p.used, k)
			}
		}
		if len(p.used) >= maxHelperPolicies {
			return nil, false
		}
	}
	p.used[key] = now
	if i := slices.IndexFunc(p.idle, func(h *idleHelper) bool { return h.key == key }); i >= 0 {
		ready = p.idle[i]
		p.idle = slices.Delete(p.idle, i, i+1)
		close(ready.taken)
	}
	return ready, known && now.Sub(last) < idleHelperTime && len(p.idle) < maxIdleHelpers
}

// fill starts a helper, and ends it unless a request takes it in time.
func (p *helperPool) fill(key string, intent *launch.Intent) {
	select {
	case <-p.stop:
		return
	default:
	}
	h, err := p.srv.startHelperBy(context.Background(), intent, noLauncher)
	if err != nil {
		return // a request that starts a helper itself gets the error
	}
	waiting := &idleHelper{helper: h, key: key, taken: make(chan struct{})}
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
