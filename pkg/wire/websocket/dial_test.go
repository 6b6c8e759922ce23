package websocket

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// answering starts a server that reads the head of each request and then calls answer, which
// writes the answer. It returns the server's address.
func answering(t *testing.T, answer func(w io.Writer, head string)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() {
				defer conn.Close()
				var head strings.Builder
				for lines := bufio.NewScanner(conn); lines.Scan() && lines.Text() != ""; {
					head.WriteString(lines.Text() + "\r\n")
				}
				answer(conn, head.String())
			})
		}
	})
	t.Cleanup(func() { _ = l.Close(); wg.Wait() })
	return l.Addr().String()
}

// TestDialSendsNoHeaderOfItsOwn: Dial sends only the headers of a websocket
// upgrade and those of its options.
func TestDialSendsNoHeaderOfItsOwn(t *testing.T) {
	heads := make(chan string, 1)
	addr := answering(t, func(w io.Writer, head string) {
		heads <- head
		_, _ = io.WriteString(w, "HTTP/1.1 403 Forbidden\r\n\r\n")
	})
	for _, own := range []string{"", "Authorization", "User-Agent"} {
		header := http.Header{}
		want := []string{"Connection", "Host", "Sec-WebSocket-Key", "Sec-WebSocket-Version", "Upgrade"}
		if own != "" {
			header.Set(own, "given")
			want = append(want, own)
		}
		_, err := Dial(t.Context(), "ws://"+addr+"/?query", DialOptions{
			Header: header, Timeout: time.Minute, Refused: func(*http.Response) error { return errors.New("refused") },
		})
		if err == nil {
			t.Fatal("a websocket")
		}
		request, fields, _ := strings.Cut(strings.TrimSpace(<-heads), "\r\n")
		var got []string
		for line := range strings.Lines(fields) {
			name, _, _ := strings.Cut(line, ":")
			got = append(got, name)
		}
		slices.Sort(got)
		slices.Sort(want)
		if request != "GET /?query HTTP/1.1" || !slices.Equal(got, want) {
			t.Errorf("%s with %q, want %q", request, got, want)
		}
	}
}

// TestDialTellsNothingOfTheAnswer: a server that does not support websockets may answer with
// the query of the URL, which is secret. The error must not contain the answer.
func TestDialTellsNothingOfTheAnswer(t *testing.T) {
	endless := func(w io.Writer, _ string) {
		_, _ = io.WriteString(w, "HTTP/1.1 101 x\r\n")
		for line := "X-Secret: " + strings.Repeat("x", 4000) + "\r\n"; ; {
			if _, err := io.WriteString(w, line); err != nil {
				return
			}
		}
	}
	for name, tt := range map[string]struct {
		answer func(w io.Writer, head string)
		want   string
	}{
		"an echo":             {func(w io.Writer, head string) { _, _ = io.WriteString(w, head+"\r\n") }, errAnswer.Error()},
		"the request line":    {func(w io.Writer, head string) { _, _ = io.WriteString(w, "HTTP/1.1 "+head+"\r\n") }, errAnswer.Error()},
		"a header that is no": {func(w io.Writer, head string) { _, _ = io.WriteString(w, "HTTP/1.1 101 x\r\n"+head+"\r\n") }, errAnswer.Error()},
		"an endless answer":   {endless, errOpening.Error()},
		"nothing":             {func(io.Writer, string) {}, io.ErrUnexpectedEOF.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			address := answering(t, tt.answer)
			_, err := Dial(t.Context(), "ws://"+address+"/?secret=\x7e", DialOptions{
				Timeout: 20 * time.Second, Refused: func(*http.Response) error { return errors.New("refused") },
			})
			if want := "failed to connect to exec-server websocket `ws://" + address + "/`: " + tt.want; err == nil || err.Error() != want {
				t.Errorf("got  %v\nwant %s", err, want)
			}
		})
	}
}

func TestPublicURL(t *testing.T) {
	for text, want := range map[string]string{
		"wss://h/p?secret#secret":     "wss://h/p",
		"wss://h/p#secret?secret":     "wss://h/p",
		"wss://secret:secret@h:1/p@q": "wss://…@h:1/p@q",
		"wss://secret@secret@h":       "wss://…@h",
		"wss://secret:s%zz@h h/p":     "wss://…@h h/p",
		"secret:secret@h":             "…@h",
		"wss://h/a://b@c?secret@h":    "wss://h/a://b@c",
		"":                            "",
	} {
		if got := PublicURL(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
