//go:build linux || darwin

package execserver

import (
	"context"
	"slices"
	"sync"
	"time"

	"codex.internal/pkg/sandbox"
)

// warmer starts confined helpers before they are asked for. Each still does
// one request and no more; what is saved is the wait for its start.
//
// A helper sees the view of the moment of its start, so this is only for
// requests that change nothing under policies that let everything be read:
// there is nothing to mask that could have changed meanwhile. It starts with
// the second request under a policy within warmTime, and an idle helper ends
// after that time.
type warmer struct {
	srv  *Server
	stop chan struct{} // closed: idle helpers end, and no more are started

	mu   sync.Mutex
	used map[string]time.Time // when each policy was used last
	idle []*warmHelper
}

// warmHelper is an idle helper; the goroutine that started it ends it unless
// it is taken.
type warmHelper struct {
	*helper
	key   string
	taken chan struct{}
}

func newWarmer(srv *Server) *warmer {
	return &warmer{srv: srv, stop: make(chan struct{}), used: make(map[string]time.Time)}
}

// start returns a helper for a request that only reads, which ends with ctx.
func (w *warmer) start(ctx context.Context, intent *sandbox.Intent) (*helper, error) {
	if !intent.Profile.FileSystem.FullRead() {
		return w.srv.startHelper(ctx, intent)
	}
	key := string(intent.Profile.AppendJSON(append([]byte(intent.PolicyCwd), 0)))
	ready, again := w.take(key)
	if again {
		// The next one starts while this one works.
		w.srv.wg.Go(func() { w.fill(key, intent) })
	}
	if ready == nil {
		return w.srv.startHelper(ctx, intent)
	}
	ready.unhook = context.AfterFunc(ctx, ready.child.Kill)
	return ready.helper, nil
}

// take returns an idle helper for a policy, or nil, and whether another one
// is likely to be of use.
func (w *warmer) take(key string) (ready *warmHelper, again bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	last, known := w.used[key]
	if !known && len(w.used) >= warmPolicies {
		for k, used := range w.used {
			if now.Sub(used) > warmTime {
				delete(w.used, k)
			}
		}
		if len(w.used) >= warmPolicies {
			return nil, false
		}
	}
	w.used[key] = now
	if i := slices.IndexFunc(w.idle, func(h *warmHelper) bool { return h.key == key }); i >= 0 {
		ready = w.idle[i]
		w.idle = slices.Delete(w.idle, i, i+1)
		close(ready.taken)
	}
	return ready, known && now.Sub(last) < warmTime && len(w.idle) < warmIdle
}

// fill starts a helper and ends it when nobody takes it.
func (w *warmer) fill(key string, intent *sandbox.Intent) {
	select {
	case <-w.stop:
		return
	default:
	}
	h, err := w.srv.startHelper(context.Background(), intent)
	if err != nil {
		return // a request that needs one meets the error
	}
	warm := &warmHelper{helper: h, key: key, taken: make(chan struct{})}
	w.mu.Lock()
	w.idle = append(w.idle, warm)
	w.mu.Unlock()
	expire := time.NewTimer(warmTime)
	defer expire.Stop()
	select {
	case <-warm.taken:
		return
	case <-expire.C:
	case <-w.stop:
	}
	w.mu.Lock()
	i := slices.Index(w.idle, warm)
	if i >= 0 {
		w.idle = slices.Delete(w.idle, i, i+1)
	}
	w.mu.Unlock()
	if i >= 0 {
		_ = h.end()
	}
}
