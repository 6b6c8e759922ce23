package rendezvous

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/testutil/leakcheck"
)

// service is a running server under test.
type service struct {
	*Server
	t      testing.TB
	url    string
	tokens *TokenFile
	token  string // good for everything

	// far is the service to which harnesses connect: this one, or another node.
	far *service
}

// starter starts a service that ends when the test ends.
type starter func(t testing.TB, opts Options) *service

// everywhere runs a test twice: with a service of one process, and with a service of two nodes. Of
// the two nodes, the first has the executors and the second the harnesses.
func everywhere(t *testing.T, test func(t *testing.T, start starter)) {
	t.Run("one process", func(t *testing.T) { test(t, start) })
	t.Run("two nodes", func(t *testing.T) { test(t, startTwo) })
}

// JoinNodes starts the state that nodes share, which runs until the test ends. It returns a
// function that adds another node. It is set by a package that may import the implementation.
var JoinNodes func(t testing.TB) (join func() (State, Bus))

// JoinCluster is JoinNodes with a cluster of three servers. kill ends the
// server to which the last node is connected.
var JoinCluster func(t testing.TB) (join func() (State, Bus), kill func())

// startTwo runs two nodes.
func startTwo(t testing.TB, opts Options) *service {
	t.Helper()
	t.Cleanup(leakcheck.Goroutines(t)) // after the nodes have ended
	return startJoined(t, opts, JoinNodes(t))
}

// startJoined runs two nodes that share the state of join.
func startJoined(t testing.TB, opts Options, join func() (State, Bus)) *service {
	t.Helper()
	opts.State, opts.Bus = join()
	far := opts
	far.State, far.Bus = join()
	s := start(t, opts)
	far.Tokens = s.tokens
	s.far = start(t, far)
	return s
}

// start runs a server that ends when the test ends. It then checks that no goroutine of the server
// is left.
func start(t testing.TB, opts Options) *service {
	t.Helper()
	noneLeft := leakcheck.Goroutines(t)
	s := &service{t: t, tokens: opts.Tokens}
	s.far = s
	if s.tokens == nil {
		s.tokens = OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
		opts.Tokens = s.tokens
	}
	s.token, _ = newToken(t, s.tokens, RoleBoth, "*")
	srv, err := New(context.Background(), opts)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = srv
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.url = "http://" + l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() {
		if err := srv.Serve(context.Background(), l, nil); err != ErrServerClosed {
			t.Errorf("Serve: %v", err)
		}
	})
	t.Cleanup(func() {
		http.DefaultClient.CloseIdleConnections()
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := srv.Shutdown(ctx); err != nil {
			t.Errorf("Shutdown: %v", err)
		}
		serving.Wait()
		if got := s.totals(); got.executors+got.harnesses+got.streams != 0 {
			t.Errorf("left over: %+v", got)
		}
		if opts.State == nil {
			noneLeft()
		}
	})
	return s
}

// answer is an answer of the API.
type answer struct {
	status int
	connectResponse
	Valid bool `json:"valid"`
	Error struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"error"`
	body string
}

// post makes an API call.
func (s *service) post(token, path, body string) answer {
	s.t.Helper()
	req, err := http.NewRequest(http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	if token != "" {
		req.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	a := answer{status: res.StatusCode, body: string(text)}
	if err := json.Unmarshal(text, &a); err != nil {
		s.t.Fatalf("%s: got text %s, error %v; want no error", path, text, err)
	}
	return a
}

// identity is a key pair. Making one takes a while, so tests share some.
var identity = sync.OnceValue(func() noise.PublicKey { return makeKey() })

func makeKey() noise.PublicKey {
	id, err := noise.GenerateIdentity()
	if err != nil {
		panic(err)
	}
	return id.PublicKey()
}

func keyText(key noise.PublicKey) string { return string(key.AppendJSON(nil)) }

// register registers an environment with the token of the test.
func (s *service) register(environment string) answer {
	s.t.Helper()
	a := s.post(s.token, "/cloud/environment/"+environment+"/register", `{"security_profile":"noise_hybrid_ik_v1","executor_public_key":`+keyText(identity())+`}`)
	if a.status != http.StatusOK {
		s.t.Fatalf("register: %s", a.body)
	}
	return a
}

// connect requests a connection to an environment with the token of the test.
func (s *service) connect(environment string, key noise.PublicKey) answer {
	s.t.Helper()
	a := s.far.post(s.token, "/cloud/environment/"+environment+"/connect", `{"harness_public_key":`+keyText(key)+`}`)
	if a.status != http.StatusOK {
		s.t.Fatalf("connect: %s", a.body)
	}
	return a
}

// peer is an end's websocket.
type peer struct {
	t  testing.TB
	ws *websocket.Conn
}

// dial dials a URL that a call has returned.
func (s *service) dial(url string) *peer {
	s.t.Helper()
	ws, res, err := websocket.DefaultDialer.Dial(url, nil)
	if err != nil {
		s.t.Fatalf("dial: %v %+v", err, res)
	}
	p := &peer{s.t, ws}
	s.t.Cleanup(func() { _ = ws.Close() })
	return p
}

// executor registers an environment and dials as its executor.
func (s *service) executor(environment string) *peer {
	s.t.Helper()
	return s.dial(s.register(environment).URL)
}

// harness connects to an environment and dials as a harness. It may take a moment until the
// executor's mailbox exists.
func (s *service) harness(environment string) *peer {
	s.t.Helper()
	return s.dial(s.connect(environment, identity()).URL)
}

// harnessOf is harness with a given token.
func (s *service) harnessOf(token, environment string) *peer {
	s.t.Helper()
	return s.dial(s.connectAs(token, environment).URL)
}

// connectAs is connect with a given token.
func (s *service) connectAs(token, environment string) answer {
	s.t.Helper()
	a := s.far.post(token, "/cloud/environment/"+environment+"/connect", `{"harness_public_key":`+keyText(identity())+`}`)
	if a.status != http.StatusOK {
		s.t.Fatalf("connect: %s", a.body)
	}
	return a
}

// open begins a stream, and makes the executor answer.
func (p *peer) open(x *peer, id string) {
	p.t.Helper()
	p.send(handshake(id, "1"))
	x.want(id, frame.Handshake, "1")
	x.send(handshake(id, "2"))
	p.want(id, frame.Handshake, "2")
}

func (p *peer) send(f frame.Frame) {
	p.t.Helper()
	if err := p.ws.WriteMessage(websocket.BinaryMessage, encode(p.t, f)); err != nil {
		p.t.Fatal(err)
	}
}

// next returns the next frame, or the reason why there is none.
func (p *peer) next() (frame.Frame, error) {
	_ = p.ws.SetReadDeadline(time.Now().Add(patience))
	_, message, err := p.ws.ReadMessage()
	if err != nil {
		return frame.Frame{}, err
	}
	return frame.Decode(message)
}

// want reads a frame and compares the relevant fields.
func (p *peer) want(stream string, kind frame.Kind, text string) {
	p.t.Helper()
	f, err := p.next()
	if err != nil || f.StreamID != stream || f.Kind != kind || string(f.Payload)+f.Reason != text {
		p.t.Fatalf("%v %q %q %q, %v; want %v %q %q", f.Kind, f.StreamID, f.Payload, f.Reason, err, kind, stream, text)
	}
}

// wantClosed expects the end of the websocket.
func (p *peer) wantClosed(code int) {
	p.t.Helper()
	for {
		_, err := p.next()
		var closed *websocket.CloseError
		if err == nil {
			continue
		}
		if !errors.As(err, &closed) || closed.Code != code {
			p.t.Fatalf("%v, want close code %d", err, code)
		}
		_ = p.ws.Close()
		return
	}
}

func handshake(stream, payload string) frame.Frame {
	return frame.Frame{StreamID: stream, Kind: frame.Handshake, Payload: []byte(payload)}
}

func data(stream string, seq int, payload string) frame.Frame {
	return frame.Frame{StreamID: stream, Kind: frame.Data, Seq: uint32(seq), Payload: []byte(payload)}
}

func reset(stream, reason string) frame.Frame {
	return frame.Frame{StreamID: stream, Kind: frame.Reset, Reason: reason}
}

// refused dials a URL and returns the status and the code of the refusal.
func refused(t testing.TB, url string) string {
	t.Helper()
	ws, res, err := websocket.DefaultDialer.Dial(url, nil)
	if err == nil {
		_ = ws.Close()
		return "accepted"
	}
	if res == nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(res.Body)
	var a answer
	if err := json.Unmarshal(bytes.TrimSpace(body), &a); err != nil {
		t.Fatalf("%s: got error %v, want no error", body, err)
	}
	return fmt.Sprint(res.StatusCode, " ", a.Error.Code)
}

// get makes a GET without a network.
func (s *service) get(path string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodGet, path, nil)
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}
