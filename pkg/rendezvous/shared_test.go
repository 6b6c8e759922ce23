package rendezvous

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

// at returns a URL in the form in which another node would have made it.
func (s *service) at(t testing.TB, text string) string {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	u.Host = strings.TrimPrefix(s.url, "http://")
	return u.String()
}

// TestExecutorComesToAnotherNode: an executor reconnects before the end of its former connection
// was noticed.
func TestExecutorComesToAnotherNode(t *testing.T) {
	s := startTwo(t, Options{})
	bundle := s.register("env")
	former := s.dial(bundle.URL)
	near, far := s.dial(s.post(s.token, "/cloud/environment/env/connect", `{"harness_public_key":`+keyText(identity())+`}`).URL), s.harness("env")
	near.send(handshake("a", "1"))
	former.want("a", frame.Handshake, "1")
	far.send(handshake("b", "2"))
	former.want("b", frame.Handshake, "2")
	began := time.Now()
	newer := s.dial(s.far.at(t, bundle.URL))
	former.wantClosed(websocket.ClosePolicyViolation)
	near.wantClosed(websocket.CloseServiceRestart)
	far.wantClosed(websocket.CloseServiceRestart)
	if took := time.Since(began); took > time.Second {
		t.Errorf("it took %v", took)
	}
	again := s.harness("env")
	again.send(handshake("c", "3"))
	newer.want("c", frame.Handshake, "3")
	// The harness stays with the newest connection, which is the only one.
	last := s.dial(bundle.URL)
	newer.wantClosed(websocket.ClosePolicyViolation)
	again.wantClosed(websocket.CloseServiceRestart)
	b := s.harness("env")
	b.send(handshake("d", "4"))
	last.want("d", frame.Handshake, "4")
}

// connecting connects a client, which sends a handshake. The channel receives the reason why its
// connection ends.
func (s *service) connecting() (*peer, <-chan error) {
	h, ended := s.harness("env"), make(chan error, 1)
	h.send(handshake("s", "x"))
	go func() {
		_, err := h.next()
		ended <- err
	}()
	return h, ended
}

// TestTwoExecutorsOfOneRegistration: two executors repeatedly reconnect at the same time, each to
// its own node, like clients with a bad network. Each time exactly one of them remains connected.
func TestTwoExecutorsOfOneRegistration(t *testing.T) {
	s := startTwo(t, Options{})
	bundle := s.register("env")
	for range 10 {
		ends := make(chan *peer, 2)
		for _, u := range []string{s.at(t, bundle.URL), s.far.at(t, bundle.URL)} {
			go func() {
				ws, _, err := websocket.DefaultDialer.Dial(u, nil)
				if err != nil {
					ends <- nil // the other was faster
					return
				}
				ends <- &peer{t, ws}
			}()
		}
		var peers []*peer
		for range 2 {
			if p := <-ends; p != nil {
				defer p.ws.Close()
				peers = append(peers, p)
			}
		}
		if len(peers) == 0 {
			t.Fatal("both were refused")
		}
		h, ended := s.connecting()
		got := make(chan bool, 2)
		for _, p := range peers {
			go func() {
				f, err := p.next()
				got <- err == nil && f.Kind == frame.Handshake
			}()
		}
		served := 0
		for answers := 0; answers < len(peers); {
			again := ended
			if served > 0 {
				again = nil
			}
			select {
			case ok := <-got:
				answers++
				if ok {
					served++
				}
			case err := <-again: // its executor was replaced a moment later
				if !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
					t.Fatal(err)
				}
				h, ended = s.connecting()
			}
		}
		if served != 1 {
			t.Fatalf("%d of %d executors are served", served, len(peers))
		}
		for _, p := range peers {
			_ = p.ws.Close()
		}
		_ = h.ws.Close()
	}
}

// TestServerOfNATSDies kills the NATS server to which the harnesses' node is connected, while
// frames are exchanged. Ends that are disconnected connect again.
func TestServerOfNATSDies(t *testing.T) {
	join, kill := JoinCluster(t)
	s := startJoined(t, Options{}, join)
	x := s.executor("env")
	go func() { // until x is closed
		for {
			kind, message, err := x.ws.ReadMessage()
			if err != nil || x.ws.WriteMessage(kind, message) != nil {
				return
			}
		}
	}()
	defer x.ws.Close()
	talk := func(h *peer, stream string, n int) error {
		for i := range n {
			f := data(stream, i, strings.Repeat("p", 1000))
			if i == 0 {
				f = handshake(stream, "hello")
			}
			if err := h.ws.WriteMessage(websocket.BinaryMessage, encode(t, f)); err != nil {
				return err
			}
			if got, err := h.next(); err != nil {
				return err
			} else if got.Kind != f.Kind || got.Seq != f.Seq {
				t.Fatalf("%+v comes instead of %+v", got, f)
			}
		}
		return nil
	}
	// The NATS servers need some time to announce to each other where the executor is.
	eventually(t, func() bool {
		body := `{"harness_public_key":` + keyText(identity()) + `}`
		return s.far.post(s.token, "/cloud/environment/env/connect", body).status == http.StatusOK
	})
	h := s.harness("env")
	if err := talk(h, "first", 10); err != nil {
		t.Fatal(err)
	}
	kill()
	killed := time.Now()
	if err := talk(h, "second", 1000); err != nil {
		if !websocket.IsCloseError(err, websocket.CloseServiceRestart) {
			t.Errorf("got error %v, want websocket.IsCloseError(err, websocket.CloseServiceRestart)", err)
		}
		t.Logf("disconnected after %v", time.Since(killed))
		eventually(t, func() bool {
			a := s.far.post(s.token, "/cloud/environment/env/connect", `{"harness_public_key":`+keyText(identity())+`}`)
			return a.status == 200
		})
		if err := talk(s.harness("env"), "third", 10); err != nil {
			t.Error(err)
		}
	}
	if took := time.Since(killed); took > 5*time.Second {
		t.Errorf("it took %v", took)
	}
	t.Logf("all went on %v after the server was killed", time.Since(killed))
}
