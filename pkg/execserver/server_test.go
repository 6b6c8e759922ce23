package execserver

import (
	"encoding/base64"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/testutil"
	wire "codex.internal/pkg/wire/websocket"
	"github.com/gorilla/websocket"
)

func TestHTTPSide(t *testing.T) {
	_, url := newTestServer(t, Options{})
	base := "http" + strings.TrimPrefix(url, "ws")
	for _, tt := range []struct {
		method, path, origin string
		status               int
	}{
		{"GET", "/readyz", "", 200}, {"HEAD", "/livez", "", 200}, {"GET", "/healthz?x", "", 200},
		{"POST", "/readyz", "", 405}, {"GET", "/nope", "", 404}, {"GET", "/readyz/", "", 404},
		{"GET", "/", "", 400}, {"POST", "/", "", 405},
		{"GET", "/readyz", "http://x", 403}, {"GET", "/", "null", 403}, {"GET", "/nope", " ", 403},
	} {
		req, _ := http.NewRequest(tt.method, base+tt.path, nil)
		if tt.origin != "" {
			req.Header.Set("Origin", strings.TrimSpace(tt.origin))
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != tt.status {
			t.Errorf("%s %s (origin %q): %d, want %d", tt.method, tt.path, tt.origin, res.StatusCode, tt.status)
		}
	}
	http.DefaultClient.CloseIdleConnections()
}

func TestAuthentication(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	const secret = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	if err := os.WriteFile(token, []byte(secret+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokenFile: token})
	if err != nil {
		t.Fatal(err)
	}
	_, url := newTestServer(t, Options{Auth: auth})
	for header, want := range map[string]string{
		"":         "missing websocket bearer token",
		"Bearer x": "invalid websocket bearer token",
		"Basic x":  "invalid authorization header",
	} {
		h := http.Header{}
		if header != "" {
			h.Set("Authorization", header)
		}
		_, res, err := websocket.DefaultDialer.Dial(url, h)
		if err == nil || res == nil || res.StatusCode != http.StatusUnauthorized {
			t.Fatalf("%q: got error %v; want an error, res that is not nil, res.StatusCode %v", header, err, http.StatusUnauthorized)
		}
		if text, _ := io.ReadAll(res.Body); strings.TrimSpace(string(text)) != want {
			t.Errorf("%q: got %q, want text %v", header, text, want)
		}
	}
	ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + secret}})
	if err != nil {
		t.Fatal(err)
	}
	ws.Close()
}

func TestConnectionsAreBounded(t *testing.T) {
	_, url := newTestServer(t, Options{MaxConnections: 1})
	hello(t, url)
	_, res, err := websocket.DefaultDialer.Dial(url, nil)
	if err == nil || res == nil || res.StatusCode != http.StatusServiceUnavailable {
		t.Fatalf("a second connection: %v", err)
	}
	if text, _ := io.ReadAll(res.Body); !strings.Contains(string(text), "--max-connections") {
		t.Errorf(`got %q, want a text with "--max-connections"`, text)
	}
}

// The tests below are about defects of Codex CLI's server that this server must not have
// (docs/spec/wire.md §8.3).

func TestExitCodesAreTheSameOnBothKinds(t *testing.T) {
	_, url := newTestServer(t, withCgroups())
	p, _ := hello(t, url)
	for i, tty := range []bool{false, true} {
		id := fmt.Sprint("signal", i)
		p.start(id, "kill -TERM $$", object{"tty": tty})
		if _, code := p.closed(id); code != 128+15 {
			t.Errorf("tty %v, killed by SIGTERM: %d", tty, code)
		}
		id = fmt.Sprint("terminated", i)
		p.start(id, "sleep 1000", object{"tty": tty})
		p.call("process/terminate", object{"processId": id}, nil)
		if _, code := p.closed(id); code != 137 {
			t.Errorf("tty %v, terminated: %d", tty, code)
		}
	}
}

func TestTerminalsDifferInNothingButTheTerminal(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	dir := t.TempDir()
	p.refuse("process/start", startObject("x", "pwd", object{"tty": true, "cwd": uri(dir, "none")}), -32603, "No such file")
	p.call("process/start", startObject("env", "env | sort; echo $0; pwd", object{
		"tty": true, "arg0": "renamed", "cwd": "file://" + dir, "argv": []string{"/bin/sh", "-c", "/usr/bin/env; echo $0"},
	}), nil)
	got, _ := p.closed("env")
	if strings.Contains(got, "SHELL=") || !strings.HasSuffix(got, "renamed\r\n") {
		t.Errorf(`got %q; want a text without "SHELL=", a text ending in %q`, got, "renamed\r\n")
	}
}

func TestExitedComesBeforeClosedAndAfterOutput(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for i := range 50 {
		id := fmt.Sprint(i)
		p.start(id, "printf last")
		if out, code := p.closed(id); out != "last" || code != 0 { // closed checks the order of the events
			t.Fatalf(`got out %q, code %d; want out "last", code 0`, out, code)
		}
	}
}

func TestAFullStdinDelaysNothingElse(t *testing.T) {
	_, url := newTestServer(t, withCgroups())
	p, _ := hello(t, url)
	p.start("deaf", "sleep 1000", object{"pipeStdin": true})
	chunk := base64.StdEncoding.EncodeToString(make([]byte, 64<<10))
	writes := make([]string, 300)
	for i := range writes {
		writes[i] = p.send("process/write", object{"processId": "deaf", "chunk": chunk, "writeId": fmt.Sprint(i)})
	}
	p.call("environment/status", nil, nil)
	p.start("other", "echo hi")
	if out, _ := p.closed("other"); out != "hi\n" {
		t.Errorf("got %q, want %q", out, "hi\n")
	}
	p.call("process/terminate", object{"processId": "deaf"}, nil)
	for _, id := range writes {
		if m := p.answer(id); m.Error != nil {
			t.Fatalf("a write: %+v", m.Error)
		}
	}
}

func TestAnswersAreFlushedBeforeTheEnd(t *testing.T) {
	_, url := newTestServer(t, Options{})
	for range 30 {
		p, _ := hello(t, url)
		last := p.send("environment/info", nil)
		p.text(`{"id":1,"result":{}}`) // a protocol error
		p.answer(last)
		if code, reason := p.closing(); code != wire.CloseProtocolError || reason == "" {
			t.Fatalf("closed with %d %q", code, reason)
		}
	}
}

func TestOddIdsAreMalformed(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for _, text := range []string{
		`{"id":null,"method":"environment/info"}`, `{"id":1.5,"method":"environment/info"}`, `{"id":{},"method":"x"}`,
		`{"id":true,"method":"initialized"}`, `[1,2]`, `["a"]`, `{"method":"bogus"}`,
	} {
		p.text(text)
		if m := p.answer("-1"); m.Error == nil || m.Error.Code != -32600 {
			t.Errorf("%s: got %+v; want m.Error that is not nil, m.Error.Code -32600", text, m)
		}
	}
	p.call("environment/status", nil, nil)
}

func TestIgnoredSignalsAreNotInherited(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	p.start("p", "grep SigIgn /proc/self/status")
	if out, _ := p.closed("p"); out != "SigIgn:\t0000000000000000\n" {
		t.Errorf("got %q, want %q", out, "SigIgn:\t0000000000000000\n")
	}
}

func TestOverlongMessagesAreToldOf(t *testing.T) {
	_, url := newTestServer(t, Options{MaxMessage: 100_000})
	p, _ := hello(t, url)
	dir := t.TempDir()
	fits := strings.Repeat("AAAA", 24_000)
	p.call("fs/writeFile", object{"path": uri(dir, "f"), "dataBase64": fits}, nil)
	if err := p.ws.WriteMessage(websocket.TextMessage, make([]byte, 3_000_000)); err != nil {
		t.Fatal(err)
	}
	if code, reason := p.closing(); code != wire.CloseTooLarge || !strings.Contains(reason, "100000") {
		t.Errorf("closed with %d %q", code, reason)
	}
	p, _ = hello(t, url)
	_ = p.ws.WriteMessage(websocket.TextMessage, []byte("{\"a\":\"\xff\"}"))
	if code, _ := p.closing(); code != wire.CloseInvalidUTF8 {
		t.Errorf("invalid UTF-8: closed with %d", code)
	}
}

func TestCopyOntoItself(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	dir := t.TempDir()
	mustWrite(t, dir+"/f", []byte("keep"))
	if err := os.Link(dir+"/f", dir+"/g"); err != nil {
		t.Fatal(err)
	}
	for _, to := range []string{"f", "g"} {
		p.refuse("fs/copy", object{"sourcePath": uri(dir, "f"), "destinationPath": uri(dir, to), "recursive": false}, -32600, "itself")
	}
	if data, _ := os.ReadFile(dir + "/f"); string(data) != "keep" {
		t.Errorf(`got %q, want "keep"`, data)
	}
	if err := os.Mkdir(dir+"/d", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(dir+"/d/fifo", 0o644); err != nil {
		t.Fatal(err)
	}
	mustWrite(t, dir+"/d/z", []byte("z"))
	var copied struct{ LeftOut struct{ Count int } }
	p.call("fs/copy", object{"sourcePath": uri(dir, "d"), "destinationPath": uri(dir, "e"), "recursive": true}, &copied)
	if copied.LeftOut.Count != 1 {
		t.Errorf("%d files were left out, want the pipe", copied.LeftOut.Count)
	}
	if data, _ := os.ReadFile(dir + "/e/z"); string(data) != "z" {
		t.Errorf("the rest was not copied: %q", data)
	}
}

// Order, concurrency and backpressure.

func TestNothingWaitsForALongPoll(t *testing.T) {
	_, url := newTestServer(t, withCgroups())
	p, _ := hello(t, url)
	p.start("p", "sleep 1000")
	polls := make([]string, 500)
	for i := range polls {
		polls[i] = p.send("process/read", object{"processId": "p", "waitMs": 3_600_000})
	}
	p.call("fs/getMetadata", object{"path": "file:///"}, nil)
	p.call("process/terminate", object{"processId": "p"}, nil)
	for _, id := range polls {
		if m := p.answer(id); m.Error != nil {
			t.Fatal(m.Error)
		}
	}
}

func TestRequestsOfOneProcessTakeEffectInOrder(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for i := range 20 {
		id := fmt.Sprint(i)
		// The test does not wait for the answer: the start is still in progress.
		p.send("process/start", startObject(id, "cat", object{"pipeStdin": true}))
		want := ""
		for j := range 20 {
			line := fmt.Sprintln("line", j)
			want += line
			p.send("process/write", object{"processId": id, "chunk": base64.StdEncoding.EncodeToString([]byte(line)), "writeId": fmt.Sprint(j)})
		}
		p.send("process/closeStdin", object{"processId": id})
		if out, code := p.closed(id); out != want || code != 0 {
			t.Fatalf("got out %q, code %d; want out %q, code 0", out, code, want)
		}
	}
}

func TestTerminateCancelsAStart(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for i := range 30 {
		id := fmt.Sprint(i)
		start := p.send("process/start", startObject(id, "sleep 1000"))
		end := p.send("process/terminate", object{"processId": id})
		if m := p.answer(end); string(m.Result) != `{"running":true}` {
			t.Fatalf("got m.Result %s, m.Error %+v; want m.Result %q", m.Result, m.Error, `{"running":true}`)
		}
		if m := p.answer(start); m.Error == nil {
			p.closed(id)
		}
	}
}

func TestAStalledClientIsBounded(t *testing.T) {
	srv, url := newTestServer(t, withCgroups())
	p, session := hello(t, url)
	if tcp, ok := p.ws.NetConn().(*net.TCPConn); ok {
		_ = tcp.SetReadBuffer(64 << 10)
	}
	p.start("p", "yes")
	srv.mu.Lock()
	s := srv.sessions[session]
	srv.mu.Unlock()
	out := s.attached().out
	// The queue must fill up, and must not grow beyond its limit.
	testutil.Eventually(t.Context(), t, "a full queue", func() (string, bool) {
		out.mu.Lock()
		n := len(out.queue)
		out.mu.Unlock()
		if n > queueBytes+2*process64K {
			t.Fatalf("%d bytes are queued", n)
		}
		return fmt.Sprintf("%d bytes", n), n >= queueBytes
	})
	// Another client is not affected.
	q, _ := hello(t, url)
	q.start("q", "echo hi")
	if got, _ := q.closed("q"); got != "hi\n" {
		t.Errorf("got %q, want %q", got, "hi\n")
	}
	// The output that was held back arrives in order and complete.
	p.send("process/terminate", object{"processId": "p"})
	got, code := p.closed("p")
	if strings.Trim(got, "y\n") != "" || code != 137 || len(got) < queueBytes/2 {
		t.Errorf("%d bytes, exit code %d", len(got), code)
	}
}

// process64K is larger than the base64 text of the largest chunk.
const process64K = 90 << 10

func TestManyProcessesLeaveNothing(t *testing.T) {
	n := testutil.Rounds(150, 300, 1500)
	_, url := newTestServer(t, withCgroups())
	p, _ := hello(t, url)
	before := descriptors(t)
	for i := range n {
		id := fmt.Sprint(i)
		p.call("process/start", startObject(id, "", object{"argv": []string{"/bin/true"}}), nil)
		p.closed(id)
	}
	if after := descriptors(t); after > before+5 {
		t.Errorf("%d descriptors before, %d after", before, after)
	}
}

func descriptors(t *testing.T) int {
	t.Helper()
	names, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(names)
}
