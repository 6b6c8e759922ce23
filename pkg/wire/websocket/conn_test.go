package websocket

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"
)

const patience = 20 * time.Second

// pair returns both ends of a websocket.
func pair(t *testing.T, o Options) (*Conn, *gorilla.Conn) {
	t.Helper()
	accepted := make(chan *Conn, 1)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, err := Upgrade(w, r, o, nil)
		if err != nil {
			t.Error(err)
			return
		}
		accepted <- c
	}))
	t.Cleanup(s.Close)
	peer, _, err := gorilla.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.URL, "http"), nil)
	if err != nil {
		t.Fatal(err)
	}
	c := <-accepted
	t.Cleanup(func() {
		_ = c.Abort()
		_ = peer.Close()
	})
	_ = peer.SetReadDeadline(time.Now().Add(patience))
	return c, peer
}

func TestFramesOfEverySize(t *testing.T) {
	c, peer := pair(t, Options{})
	sizes := []int{0, 1, 125, 126, 127, 0xFFFF, 0x10000, maxFrame, maxFrame + 1, 2*maxFrame + 7}
	go func() {
		var batch []byte
		for _, n := range sizes {
			start := len(batch)
			batch = c.Seal(append(c.Open(batch), bytes.Repeat([]byte{'a'}, n)...), start)
		}
		if err := c.WriteFrames(batch); err != nil {
			t.Error(err)
		}
	}()
	for _, n := range sizes {
		kind, text, err := peer.ReadMessage()
		if err != nil || kind != gorilla.TextMessage || len(text) != n || strings.Trim(string(text), "a") != "" {
			t.Fatalf("a message of %d bytes came as %d of kind %d: %v", n, len(text), kind, err)
		}
	}
}

func TestFragmentsJoin(t *testing.T) {
	c, peer := pair(t, Options{})
	room := strings.Repeat("-", FragmentRoom)
	go func() {
		for i, part := range []string{"one ", strings.Repeat("x", 70_000), "", " end"} {
			if err := c.Fragment([]byte(room+part), i == 0, i == 3); err != nil {
				t.Error(err)
			}
		}
	}()
	_, text, err := peer.ReadMessage()
	if want := "one " + strings.Repeat("x", 70_000) + " end"; err != nil || string(text) != want {
		t.Errorf("%d bytes, %v", len(text), err)
	}
}

func TestMessagesUpToTheLimit(t *testing.T) {
	const limit = 300_000
	for i, n := range []int{0, 1, 2 << 10, 2<<10 + 1, 32 << 10, 256<<10 + 1, limit, limit + 1, limit + 1} {
		explain := i%2 == 0
		c, peer := pair(t, Options{Limit: limit, ExplainLimit: explain})
		if err := peer.WriteMessage(gorilla.BinaryMessage, bytes.Repeat([]byte{'b'}, n)); err != nil {
			t.Fatal(err)
		}
		m, err := c.ReadMessage()
		var large *TooLargeError
		switch {
		case n > limit:
			if !errors.As(err, &large) || large.Limit != limit {
				t.Errorf("%d bytes: %v", n, err)
			}
		case err != nil || len(m.Bytes()) != n || m.Text:
			t.Errorf("%d bytes: %v", n, err)
		default:
			m.Release()
		}
	}
}

// budget is a Memory with a fixed number of bytes. It does not wait.
type budget struct{ left int }

var errFull = errors.New("full")

func (m *budget) Take(n int) (int, error) {
	if n > m.left {
		return 0, errFull
	}
	m.left -= n
	return n, nil
}

func (m *budget) Give(n int) { m.left += n }

func TestMessagesTakeMemoryUntilTheirRelease(t *testing.T) {
	const all = 1 << 20
	for _, tt := range []struct {
		size int
		held bool
		err  error
	}{
		{size: 100},
		{size: 100 << 10, held: true},
		{size: 2 << 20, err: errFull},
	} {
		memory := &budget{left: all}
		c, peer := pair(t, Options{Memory: memory})
		go func() { _ = peer.WriteMessage(gorilla.BinaryMessage, bytes.Repeat([]byte{'b'}, tt.size)) }()
		m, err := c.ReadMessage()
		if !errors.Is(err, tt.err) {
			t.Errorf("%d bytes: got error %v, want %v", tt.size, err, tt.err)
		}
		if err == nil {
			if held := memory.left < all; held != tt.held {
				t.Errorf("%d bytes: got memory taken %v, want %v", tt.size, held, tt.held)
			}
			m.Release()
		}
		if memory.left != all {
			t.Errorf("%d bytes: afterwards got %d bytes left, want %d", tt.size, memory.left, all)
		}
	}
}

func TestCloseTellsWhy(t *testing.T) {
	c, peer := pair(t, Options{})
	go func() { _ = c.Close(CloseTooLarge, strings.Repeat("é", 100)) }()
	_, _, err := peer.ReadMessage()
	var closed *gorilla.CloseError
	if !errors.As(err, &closed) || closed.Code != CloseTooLarge || !strings.HasPrefix(closed.Text, "éé") {
		t.Errorf(`got error %v; want errors.As(err, &closed), closed.Code %v, closed.Text beginning with "éé"`, err, CloseTooLarge)
	}
}

func TestStdio(t *testing.T) {
	var out bytes.Buffer
	c := NewStdio(strings.NewReader("\n  \n{\"a\":1}\r\n"+strings.Repeat("x", 100_000)+"\nlast"), &out, 0)
	for _, want := range []int{len("{\"a\":1}\r\n"), 100_001, 4} {
		m, err := c.ReadMessage()
		if err != nil || len(m.Bytes()) != want {
			t.Fatalf("%v, want a line of %d bytes", err, want)
		}
		m.Release()
	}
	if _, err := c.ReadMessage(); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v", err)
	}
	if err := c.WriteFrames(c.Seal(append(c.Open(nil), "{}"...), 0)); err != nil {
		t.Fatal(err)
	}
	room := strings.Repeat("-", FragmentRoom)
	_ = c.Fragment([]byte(room+"[1,"), true, false)
	_ = c.Fragment([]byte(room+"2]"), false, true)
	if out.String() != "{}\n[1,2]\n" {
		t.Errorf("got %q, want %q", out.String(), "{}\n[1,2]\n")
	}
	var large *TooLargeError
	if _, err := NewStdio(strings.NewReader("123456\n"), &out, 5).ReadMessage(); !errors.As(err, &large) {
		t.Errorf("past the limit: %v", err)
	}
}

func TestAbortEndsARead(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	c := NewStdio(r, io.Discard, 0)
	ended := make(chan error, 1)
	go func() {
		_, err := c.ReadMessage()
		ended <- err
	}()
	_ = c.Abort()
	select {
	case err := <-ended:
		if err == nil {
			t.Error("it read something")
		}
	case <-time.After(patience):
		t.Error("the read goes on")
	}
}
