package execserver

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"testing"
	"time"

	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/testutil"
)

// readFile reads a file. It parses the answer by hand: encoding/json reads the text five times,
// which takes half a minute with the race detector on a busy machine. During that time the
// client does not answer the server's pings, and the server ends the connection.
func (p *peer) readFile(path string) []byte {
	p.t.Helper()
	id := p.send("fs/readFile", object{"path": path})
	_ = p.ws.SetReadDeadline(time.Now().Add(testTimeout))
	_, text, err := p.ws.ReadMessage()
	if err != nil {
		p.t.Fatal(err)
	}
	encoded, begins := bytes.CutPrefix(text, []byte(`{"id":`+id+`,"result":{"dataBase64":"`))
	encoded, ends := bytes.CutSuffix(encoded, []byte(`"}}`))
	if !begins || !ends {
		p.t.Fatalf("the answer is %.200s", text)
	}
	data, err := base64.StdEncoding.AppendDecode(nil, encoded)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

func TestLargeFilesComeWhole(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	dir := t.TempDir()
	const whole = 85 * reply.Chunk // wholeFile of pkg/execserver/files
	for _, n := range []int{0, 1, reply.MaxInline, reply.MaxInline + 1, reply.Chunk, reply.Chunk + 1, 3*reply.Chunk - 1, whole + reply.Chunk + 5, 5 << 20} {
		data := bytes.Repeat([]byte("0123456789abcde"), n/15+1)[:n]
		mustWrite(t, dir+"/f", data)
		if got := p.readFile(uri(dir, "f")); !bytes.Equal(got, data) {
			t.Errorf("%d bytes came back as %d", n, len(got))
		}
		if n > 6<<20 {
			continue // larger than a message may be
		}
		p.call("fs/writeFile", object{"path": uri(dir, "g"), "dataBase64": data}, nil)
		if back, _ := os.ReadFile(dir + "/g"); !bytes.Equal(back, data) {
			t.Errorf("%d bytes were written as %d", n, len(back))
		}
	}
	p.refuse("fs/writeFile", object{"path": uri(dir, "g"), "dataBase64": "AAA"}, -32600, "fs/writeFile requires valid base64")
	if st, _ := os.Stat(dir + "/g"); st.Size() != 5<<20 {
		t.Error("a refused write changed the file")
	}
}

func TestHandles(t *testing.T) {
	_, url := newTestServer(t, Options{MaxHandles: 3, SessionTTL: -1})
	p, _ := hello(t, url)
	dir := t.TempDir()
	mustWrite(t, dir+"/f", []byte("0123456789"))
	open := object{"handleId": "h", "path": uri(dir, "f")}
	// The client need not wait between requests about one handle.
	p.send("fs/open", open)
	a := p.send("fs/readBlock", object{"handleId": "h", "offset": 2, "len": 4})
	b := p.send("fs/close", object{"handleId": "h"})
	c := p.send("fs/readBlock", object{"handleId": "h", "offset": 0, "len": 4})
	if m := p.answer(a); string(m.Result) != `{"chunk":"MjM0NQ==","eof":false}` {
		t.Errorf("got m.Result %s, m.Error %+v; want m.Result %q", m.Result, m.Error, `{"chunk":"MjM0NQ==","eof":false}`)
	}
	p.answer(b)
	if m := p.answer(c); m.Error == nil || m.Error.Code != -32004 {
		t.Errorf("after the close: %+v", m)
	}
	for i := range 3 {
		open["handleId"] = fmt.Sprint(i)
		p.call("fs/open", open, nil)
	}
	open["handleId"] = "one more"
	p.refuse("fs/open", open, -32600, "at most 3 file reads")
	p.ws.Close()
	// If the session ends before an atomic write is closed, the target is unchanged.
	q, _ := hello(t, url)
	q.call("fs/open", object{"handleId": "w", "path": uri(dir, "f"), "mode": "replace", "atomic": true}, nil)
	q.call("fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "bmV3"}, nil)
	q.ws.Close()
	testutil.Eventually(t.Context(), t, "no temporary file", func() (string, bool) {
		names, _ := os.ReadDir(dir)
		return fmt.Sprint(names), len(names) == 1
	})
	if data, _ := os.ReadFile(dir + "/f"); string(data) != "0123456789" {
		t.Errorf(`got %q, want "0123456789"`, data)
	}
}
