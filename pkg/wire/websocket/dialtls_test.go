package websocket

import (
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
)

// TestDialOffersHTTP1Alone: a configuration that net/http has used offers HTTP/2. A server that
// supports it would choose HTTP/2, which has no upgrade.
func TestDialOffersHTTP1Alone(t *testing.T) {
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if ws, err := new(gorilla.Upgrader).Upgrade(w, r, nil); err == nil {
			_ = ws.Close()
		}
	}))
	srv.EnableHTTP2 = true
	srv.TLS = &tls.Config{NextProtos: []string{"h2", "http/1.1"}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	config := srv.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
	config.NextProtos = []string{"h2", "http/1.1"}
	ws, err := Dial(t.Context(), "wss://"+strings.TrimPrefix(srv.URL, "https://"), DialOptions{
		TLS: config, Timeout: 20 * time.Second, Refused: func(*http.Response) error { return errors.New("refused") },
	})
	if err != nil {
		t.Fatal(err)
	}
	defer ws.Abort()
	if got := ws.net.(*tls.Conn).ConnectionState().NegotiatedProtocol; got != "http/1.1" {
		t.Errorf("negotiated %q", got)
	}
	if config.NextProtos[0] != "h2" {
		t.Error("the caller's configuration was changed")
	}
}
