package execserver

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/fetch"
	"github.com/klauspost/compress/zstd"
)

// newBackend returns the URL of an HTTP server that answers with n bytes.
func newBackend(t *testing.T, n int) string {
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = w.Write(make([]byte, n))
	}))
	t.Cleanup(backend.Close)
	return backend.URL
}

func (p *peer) delta() execproto.HTTPBodyDelta {
	p.t.Helper()
	m := p.wait(func(m message) bool { return m.Method == "http/request/bodyDelta" })
	d, err := execproto.Decode[execproto.HTTPBodyDelta](m.Params)
	if err != nil {
		p.t.Fatal(err)
	}
	return d
}

func ackDelta(id string, seq uint64) string {
	text, _ := execproto.Append(nil, &execproto.HTTPAck{RequestID: id, Seq: seq})
	return fmt.Sprintf(`{"method":"http/request/ack","params":%s}`, text)
}

func streamed(url, id string, window int) object {
	return object{"method": "GET", "url": url, "requestId": id, "streamResponse": true, "deltaWindow": window}
}

func TestDeltasWaitForAcknowledgements(t *testing.T) {
	_, url := newTestServer(t, Options{})
	const size, window = 20 << 20, 3
	backend := newBackend(t, size)
	p, _ := hello(t, url)
	p.text(ackDelta("r", 1000)) // an unknown stream is ignored
	p.call("http/request", streamed(backend, "r", window), nil)
	got, acked := 0, uint64(0)
	for seq := uint64(1); ; seq++ {
		d := p.delta()
		if d.Seq != seq || d.Error != nil {
			t.Fatalf("delta %d where %d was to come: %v", d.Seq, seq, d.Error)
		}
		if d.Done {
			break
		}
		got += len(d.Delta)
		if seq-acked > window {
			t.Fatalf("%d deltas are not acknowledged", seq-acked)
		}
		if seq-acked < window {
			continue
		}
		// Deltas that the server sends before the acknowledgement arrive before this answer.
		// Otherwise they count as later deltas.
		p.call("environment/status", nil, nil)
		acked = seq - seq%2
		p.text(ackDelta("r", acked))
		p.text(ackDelta("r", 1)) // an older acknowledgement has no effect
		if seq > 50 {
			p.text(ackDelta("r", 1<<53-1))
			for d := p.delta(); !d.Done; d = p.delta() {
				got += len(d.Delta)
			}
			break
		}
	}
	if got != size {
		t.Errorf("%d bytes came, not %d", got, size)
	}
	head := streamed(backend, "r", 0) // the id can be used again
	head["method"] = "HEAD"
	p.call("http/request", head, nil)
	if d := p.delta(); !d.Done {
		t.Errorf("%d bytes for HEAD", len(d.Delta))
	}
}

func TestDeltaAcknowledgementsAreChecked(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p := dial(t, url)
	refuse := func(code int, text string) {
		t.Helper()
		p.text(`{"method":"http/request/ack","params":{"requestId":"r"}}`)
		if m := p.answer("-1"); m.Error == nil || m.Error.Code != code || m.Error.Message != text {
			t.Errorf("%+v, want %d %q", m.Error, code, text)
		}
	}
	refuse(-32600, "client must call initialize before using http methods")
	p.initialize("")
	refuse(-32602, "notification `http/request/ack`: missing field `seq`")
}

// TestHeldBackResponsesEnd: unacknowledged responses end with their connection,
// and with the server.
func TestHeldBackResponsesEnd(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	backend := newBackend(t, 100<<20)
	for range 2 {
		awaitConns(t, srv, 0)
		p, _ := hello(t, url)
		p.call("http/request", streamed(backend, "r", 1), nil)
		p.delta()
		p.refuse("http/request", streamed(backend, "r", 1), -32602, "already active")
		p.ws.Close()
	}
	p, _ := hello(t, url)
	p.call("http/request", streamed(backend, "r", 1), nil)
	p.delta()
}

func TestDeltaWindow(t *testing.T) {
	for _, tt := range []struct{ window, sent, acked uint64 }{
		{1, 0, 0}, {1, 1, 1}, {2, 1, 0}, {2, 5, 4}, {2, 1, 100}, {maxDeltaWindow, maxDeltaWindow - 1, 0}, {0, 1 << 40, 0},
	} {
		d := deltas{window: tt.window, sent: tt.sent}
		d.acked.Store(tt.acked)
		if err := d.await(t.Context()); err != nil {
			t.Errorf("%+v: got error %v, want no error", tt, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, tt := range []struct{ window, sent, acked uint64 }{{1, 1, 0}, {2, 5, 3}, {maxDeltaWindow, maxDeltaWindow, 0}} {
		d := deltas{window: tt.window, sent: tt.sent, acks: make(chan struct{}, 1)}
		d.ack(tt.acked)
		if err := d.await(ended); err == nil {
			t.Errorf("%+v: one more is sent", tt)
		}
		d.ack(tt.sent)
		d.ack(0)
		if err := d.await(t.Context()); err != nil {
			t.Errorf("%+v, acknowledged: %v", tt, err)
		}
	}
	var table streamTable
	d, err := table.claim("r", maxDeltaWindow+1)
	if err != nil || d.window != maxDeltaWindow {
		t.Errorf("the largest window: %+v, %v", d, err)
	}
}

// TestCompressedBodiesAreBounded: a few bytes of gzip and zstd becomes 96 MiB. Buffered, it is refused at 64 MiB, and
// leaves no memory reserved: a connection that buffers 256 MiB at a time gets the same error six times. Streamed, it arrives in
// pieces, of which the window is not exceeded.
func TestCompressedBodiesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	const size, window = 96 << 20, 3
	var zip, zst bytes.Buffer
	z := gzip.NewWriter(&zip)
	y, err := zstd.NewWriter(&zst)
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range []io.WriteCloser{z, y} {
		for range size >> 20 {
			if _, err := w.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
	}
	_, url := newTestServer(t, Options{})
	for encoding, body := range map[string][]byte{"gzip": zip.Bytes(), "zstd": zst.Bytes()} {
		if len(body) > size/500 {
			t.Fatalf("%s: the body has %d bytes, so it is no bomb", encoding, len(body))
		}
		backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", encoding)
			_, _ = w.Write(body)
		}))
		t.Cleanup(backend.Close)
		p, _ := hello(t, url)
		for range 6 {
			m := p.answer(p.send("http/request", object{"method": "GET", "url": backend.URL, "requestId": "b"}))
			if m.Error == nil || !strings.Contains(m.Error.Message, "exceeds 67108864 bytes; ask for it with streamResponse") {
				t.Fatalf("%s, buffered: got error %+v, want one that names the limit", encoding, m.Error)
			}
		}
		p.call("http/request", streamed(backend.URL, "r", window), nil)
		got, acked := 0, uint64(0)
		for {
			d := p.delta()
			if d.Error != nil || len(d.Delta) > httpDelta || d.Seq > acked+window && !d.Done {
				t.Fatalf("%s, streamed: got delta %d of %d bytes, %d acknowledged, error %v; want at most %d bytes, a window of %d and no error",
					encoding, d.Seq, len(d.Delta), acked, d.Error, httpDelta, window)
			}
			if d.Done {
				break
			}
			got, acked = got+len(d.Delta), d.Seq
			p.text(ackDelta("r", acked))
		}
		if got != size {
			t.Errorf("%s, streamed: got %d bytes, want %d", encoding, got, size)
		}
	}
}

// closing counts how often a body is closed.
type closing struct {
	io.Reader
	closed int
}

func (c *closing) Close() error {
	c.closed++
	return nil
}

// The decoders of a connection's bodies hold at most as much memory as its buffered bodies.
func TestDecodersMemoryIsBounded(t *testing.T) {
	var table streamTable
	body := func() *closing { return &closing{Reader: strings.NewReader("")} }
	first, second := body(), body()
	one := &fetch.Response{Body: first, DecoderMemory: bufferedHTTP/2 + 1}
	if err := table.reserveDecoder(one); err != nil {
		t.Fatal(err)
	}
	if err := table.reserveDecoder(&fetch.Response{Body: second, DecoderMemory: bufferedHTTP / 2}); err == nil || second.closed != 1 {
		t.Errorf("beyond the limit: got error %v, closed %d times; want an error, closed once", err, second.closed)
	}
	for range 2 {
		_ = one.Body.Close()
	}
	if table.buffered != 0 || first.closed == 0 {
		t.Errorf("after the end: got %d bytes, closed %d times; want 0 bytes, closed", table.buffered, first.closed)
	}
	if plain := (&fetch.Response{Body: second}); table.reserveDecoder(plain) != nil || plain.Body != second || table.buffered != 0 {
		t.Errorf("not decoded: got %d bytes, body %T; want 0 bytes, the body itself", table.buffered, plain.Body)
	}
}
