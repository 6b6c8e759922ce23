package websocket

import (
	"fmt"
	"net/http"

	gorilla "github.com/gorilla/websocket"
)

// IsUpgrade reports whether a request asks for an upgrade to a websocket.
func IsUpgrade(r *http.Request) bool { return gorilla.IsWebSocketUpgrade(r) }

// Upgrade converts an HTTP request to a connection. The caller must already have refused
// requests with an Origin (docs/spec/wire.md §1.2) and authenticated the client: Upgrade calls
// Admit for the connection. If Upgrade fails, it has called refuse to answer the request; nil:
// http.Error.
func Upgrade(w http.ResponseWriter, r *http.Request, o Options, refuse func(w http.ResponseWriter, status int, reason error)) (*Conn, error) {
	if refuse == nil {
		refuse = func(w http.ResponseWriter, status int, reason error) { http.Error(w, reason.Error(), status) }
	}
	upgrader := gorilla.Upgrader{ // the connection uses the HTTP server's buffers
		CheckOrigin: func(*http.Request) bool { return true },
		Error: func(w http.ResponseWriter, _ *http.Request, status int, reason error) {
			refuse(w, status, reason)
		},
	}
	ws, err := upgrader.Upgrade(w, r, nil)
	if err != nil {
		return nil, fmt.Errorf("upgrade to a websocket: %w", err)
	}
	Admit(ws.NetConn())
	return newConn(ws, false, o), nil
}
