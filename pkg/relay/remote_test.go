package relay

import (
	"bytes"
	"encoding/binary"
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/relay/noise"
)

// remote is the relay as an executor sees it. The test decides which frames it sends.
type remote struct {
	t  *testing.T
	ws *websocket.Conn
}

// acceptor is a server of websockets.
func acceptor(t *testing.T) (url string, accepted chan *remote) {
	accepted = make(chan *remote, 16)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
		if err != nil {
			return // the executor has broken off
		}
		accepted <- &remote{t, ws}
	}))
	t.Cleanup(s.Close)
	return "ws" + strings.TrimPrefix(s.URL, "http") + "/?secret=1", accepted
}

// meet starts an executor and returns the connection that it makes.
func meet(t *testing.T, o ExecutorOptions) (*remote, chan *remote) {
	t.Helper()
	checkLeaks(t)
	url, accepted := acceptor(t)
	runExecutor(t, url, o)
	return next(t, accepted), accepted
}

func next(t *testing.T, accepted chan *remote) *remote {
	t.Helper()
	select {
	case r := <-accepted:
		t.Cleanup(func() { _ = r.ws.Close() })
		_ = r.ws.SetReadDeadline(time.Now().Add(patience))
		return r
	case <-time.After(patience):
		t.Fatal("nobody connects")
		return nil
	}
}

func (r *remote) send(f frame.Frame) {
	r.t.Helper()
	message, err := f.Append(nil)
	if err == nil {
		err = r.ws.WriteMessage(websocket.BinaryMessage, message)
	}
	if err != nil {
		r.t.Fatal(err)
	}
}

func (r *remote) data(id string, seq uint32, record []byte) {
	r.t.Helper()
	r.send(frame.Frame{StreamID: id, Kind: frame.Data, Seq: seq, Payload: record})
}

// get returns the next frame that is not an acknowledgement.
func (r *remote) get() frame.Frame {
	r.t.Helper()
	for {
		kind, message, err := r.ws.ReadMessage()
		if err != nil || kind != websocket.BinaryMessage {
			r.t.Fatalf("kind %d, %v", kind, err)
		}
		f, err := frame.Decode(message)
		if err != nil {
			r.t.Fatal(err)
		}
		if f.Kind != frame.Ack {
			return f
		}
	}
}

func (r *remote) expect(id string, kind frame.Kind) frame.Frame {
	r.t.Helper()
	f := r.get()
	if f.StreamID != id || f.Kind != kind {
		r.t.Fatalf("%v of stream %q, want %v of %q", f.Kind, f.StreamID, kind, id)
	}
	if kind == frame.Reset && f.Reason != "noise_relay_protocol_error" {
		r.t.Errorf("the reset says %q", f.Reason)
	}
	return f
}

func (r *remote) ended() {
	r.t.Helper()
	for {
		if _, _, err := r.ws.ReadMessage(); err != nil {
			var timeout interface{ Timeout() bool }
			if errors.As(err, &timeout) && timeout.Timeout() {
				r.t.Error("the connection goes on")
			}
			return
		}
	}
}

// knock sends message 1.
func (r *remote) knock(id, authorization string) *noise.Initiator {
	r.t.Helper()
	channel := noise.Channel{EnvironmentID: where.EnvironmentID, ExecutorRegistrationID: where.RegistrationID, StreamID: id}
	initiator, message1, err := noise.NewInitiator(identity(), identity().PublicKey(), channel, []byte(authorization))
	if err != nil {
		r.t.Fatal(err)
	}
	r.send(frame.Frame{StreamID: id, Kind: frame.Handshake, Payload: message1})
	return initiator
}

// enter makes a stream.
func (r *remote) enter(id string) *noise.Session {
	r.t.Helper()
	initiator := r.knock(id, "please")
	session, err := initiator.Finish(r.expect(id, frame.Handshake).Payload)
	if err != nil {
		r.t.Fatal(err)
	}
	return session
}

func seal(t *testing.T, s *noise.Session, plaintext []byte) []byte {
	t.Helper()
	record, err := s.Seal(nil, plaintext)
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func framed(text string) []byte {
	return append(binary.BigEndian.AppendUint32(nil, uint32(len(text))), text...)
}

const hello = `{"method":"hello"}`

// says sends a message and expects to receive it back, both as record seq.
func (r *remote) says(id string, s *noise.Session, seq uint32) {
	r.t.Helper()
	r.data(id, seq, seal(r.t, s, framed(hello)))
	f := r.expect(id, frame.Data)
	plaintext, err := s.Open(nil, f.Payload)
	if err != nil || f.Seq != seq || !bytes.Equal(plaintext, framed(hello)) {
		r.t.Fatalf("record %d: %q, %v", f.Seq, plaintext, err)
	}
}

// rawHandshake encodes a frame of kind Handshake, even for ids that cannot be sent.
func rawHandshake(id string, message []byte) []byte {
	field := func(number int, value []byte) []byte {
		return append(binary.AppendUvarint([]byte{byte(number<<3 | 2)}, uint64(len(value))), value...)
	}
	return slices.Concat([]byte{8, 1}, field(2, []byte(id)), field(10, field(1, message)))
}
