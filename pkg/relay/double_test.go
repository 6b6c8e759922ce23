package relay

import (
	"context"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

// double is a relay within this process. It forwards the frames of one executor and of any number
// of harnesses. It sends each frame of a stream to the connection from which the last frame of that
// stream came, and drops frames without a recipient.
type double struct {
	url string
	// lose reports which frames get lost; it may be nil.
	lose func(frame.Frame) bool

	mu        sync.Mutex
	executor  *side
	harnesses map[string]*side // by stream
	all       map[*side]bool
	refuse    int // harnesses to be refused with 401
	dials     atomic.Int64
}

// side is one websocket.
type side struct {
	ws *websocket.Conn
	mu sync.Mutex // held to write
}

func (s *side) write(message []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.ws.WriteMessage(websocket.BinaryMessage, message)
}

func newDouble(t *testing.T) *double {
	checkLeaks(t)
	d := &double{harnesses: make(map[string]*side), all: make(map[*side]bool)}
	s := httptest.NewServer(d)
	d.url = "ws" + strings.TrimPrefix(s.URL, "http")
	t.Cleanup(func() {
		d.cut(1)
		s.Close()
	})
	return d
}

func (d *double) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	executor := r.URL.Query().Get("role") == "environment"
	d.mu.Lock()
	refuse := !executor && d.refuse > 0
	if refuse {
		d.refuse--
	}
	d.mu.Unlock()
	if !executor {
		d.dials.Add(1)
	}
	if refuse {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	s := &side{ws: ws}
	d.mu.Lock()
	d.all[s] = true
	if executor {
		d.executor = s
	}
	d.mu.Unlock()
	d.pump(s, executor)
	d.mu.Lock()
	delete(d.all, s)
	if d.executor == s {
		d.executor = nil
	}
	d.mu.Unlock()
	_ = ws.Close()
}

// pump forwards the frames that a side sends.
func (d *double) pump(s *side, executor bool) {
	for {
		_, message, err := s.ws.ReadMessage()
		if err != nil {
			return
		}
		f, err := frame.Decode(message)
		if err != nil || d.lose != nil && d.lose(f) {
			continue
		}
		d.mu.Lock()
		to := d.executor
		if executor {
			to = d.harnesses[f.StreamID]
		} else {
			d.harnesses[f.StreamID] = s
		}
		d.mu.Unlock()
		if to != nil {
			to.write(message)
		}
	}
}

// cut breaks each websocket with the given chance.
func (d *double) cut(chance float64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for s := range d.all {
		if rand.Float64() < chance {
			_ = s.ws.NetConn().Close()
			if d.executor == s {
				d.executor = nil
			}
		}
	}
}

// Run starts an executor at the double and returns when it is connected.
func (d *double) Run(t *testing.T, o ExecutorOptions) {
	t.Helper()
	o.Register = func(context.Context) (Registration, error) {
		r := where
		r.URL = d.url + "/?role=environment"
		return r, nil
	}
	runExecutor(t, "", o)
	d.awaitExecutor(t)
}

// awaitExecutor waits until the executor is connected.
func (d *double) awaitExecutor(t *testing.T) {
	t.Helper()
	await(t, func() bool {
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.executor != nil
	})
}

// harness returns a harness that is connected to the double.
func (d *double) harness(o HarnessOptions) *Harness {
	o.Identity = identity()
	if o.Connect == nil {
		o.Connect = func(context.Context) (Bundle, error) { return d.bundle(), nil }
	}
	return NewHarness(o)
}

func (d *double) bundle() Bundle {
	r := where
	r.URL = d.url + "/?role=harness"
	return Bundle{Registration: r, ExecutorKey: identity().PublicKey(), Authorization: "please"}
}
