package rendezvous

import (
	"container/list"
	"net"
	"net/http"
	"sync"
)

// waiting keeps the connections of a listener that are not upgraded to a
// websocket, for which a signed URL is needed, the oldest first. They can be
// anybody's: if there are too many the oldest is closed. An honest request takes
// milliseconds, so that those that hold a connection for long are hit.
type waiting struct {
	limit int

	mu    sync.Mutex
	order list.List // of net.Conn
	by    map[net.Conn]*list.Element
}

func newWaiting(limit int) *waiting {
	return &waiting{limit: limit, by: make(map[net.Conn]*list.Element)}
}

// track is an http.Server's ConnState.
func (w *waiting) track(c net.Conn, state http.ConnState) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch state {
	case http.StateNew:
		w.by[c] = w.order.PushBack(c)
		if w.order.Len() > w.limit {
			oldest := w.order.Front().Value.(net.Conn)
			w.forget(oldest)
			_ = oldest.Close()
		}
	case http.StateHijacked, http.StateClosed:
		w.forget(c)
	}
}

// forget takes a connection off the list. The caller holds mu.
func (w *waiting) forget(c net.Conn) {
	if e := w.by[c]; e != nil {
		w.order.Remove(e)
		delete(w.by, c)
	}
}
