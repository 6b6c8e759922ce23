package execserver

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// In the tests below, a client has lost its connection. It does not know which of its requests
// were handled, and sends them again.

func TestAStartThatIsRepeatedIsRefused(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	for i := range 30 {
		id := fmt.Sprint(i)
		first := p.send("process/start", startObject(id, "echo hi"))
		second := p.send("process/start", startObject(id, "echo hi")) // the first may still be starting
		if m := p.answer(second); m.Error == nil || m.Error.Code != -32600 || m.Error.Message != "process "+id+" already exists" {
			t.Fatalf("the second: %s %+v", m.Result, m.Error)
		}
		if m := p.answer(first); m.Error != nil {
			t.Fatalf("the first: %+v", m.Error)
		}
		if out, _ := p.closed(id); out != "hi\n" {
			t.Errorf("got %q, want %q", out, "hi\n")
		}
		p.refuse("process/start", startObject(id, "echo hi"), -32600, "already exists") // after it has closed
	}
}

// TestAWriteThatIsRepeatedAfterACut repeats a write whose first copy waits for
// a pipe that nobody reads.
func TestAWriteThatIsRepeatedAfterACut(t *testing.T) {
	srv, url := newTestServer(t, withCgroups())
	gate := filepath.Join(t.TempDir(), "gate")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789abcdef"), 1<<17) // more than the server buffers
	write := object{"processId": "p", "chunk": base64.StdEncoding.EncodeToString(data), "writeId": "1"}
	p, session := hello(t, url)
	p.start("p", "cat "+gate+"; exec cat", object{"pipeStdin": true, "outputWindow": 512 << 10})
	p.send("process/write", write)
	p.call("environment/status", nil, nil) // the server has accepted the write
	p.ws.Close()
	awaitConns(t, srv, 0)

	q := takeOver(t, url, session)
	again := []string{q.send("process/write", write), q.send("process/write", write)}
	q.call("environment/status", nil, nil)
	for _, m := range q.held {
		t.Errorf("answered while the first copy waits: %s %s %+v", m.ID, m.Result, m.Error)
	}
	if err := os.WriteFile(gate, nil, 0); err != nil {
		t.Fatal(err)
	}
	closes := []string{q.send("process/closeStdin", object{"processId": "p"}), q.send("process/closeStdin", object{"processId": "p"})}
	got := &collector{}
	got.consume(q, "p")
	for _, id := range again {
		if m := q.answer(id); string(m.Result) != `{"status":"accepted"}` {
			t.Errorf("got m.Result %s, m.Error %+v; want m.Result %q", m.Result, m.Error, `{"status":"accepted"}`)
		}
	}
	for _, id := range closes {
		if m := q.answer(id); string(m.Result) != `{}` {
			t.Errorf("closeStdin: %s %+v", m.Result, m.Error)
		}
	}
	if !bytes.Equal(got.out, data) {
		t.Errorf("%d bytes came back, not %d", len(got.out), len(data))
	}
}

func TestATerminateThatIsRepeatedIsHarmless(t *testing.T) {
	_, url := newTestServer(t, withCgroups())
	p, _ := hello(t, url)
	p.start("p", "sleep 1000")
	var ids []string
	for range 5 {
		ids = append(ids, p.send("process/terminate", object{"processId": "p"}))
	}
	for _, id := range ids {
		if m := p.answer(id); m.Error != nil || !strings.HasPrefix(string(m.Result), `{"running":`) {
			t.Errorf("got m.Result %s, m.Error %+v; want m.Error nil, m.Result beginning with %q", m.Result, m.Error, `{"running":`)
		}
	}
	if _, code := p.closed("p"); code != 137 {
		t.Errorf("exit code %d", code)
	}
	if m := p.answer(p.send("process/terminate", object{"processId": "p"})); string(m.Result) != `{"running":false}` {
		t.Errorf("got m.Result %s, m.Error %+v; want m.Result %q", m.Result, m.Error, `{"running":false}`)
	}
}
