package execserver

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	wire "codex.internal/pkg/wire/websocket"
)

func TestResume(t *testing.T) {
	_, url := newTestServer(t, withCgroups())
	p, session := hello(t, url)
	p.start("p", "echo one; read x; echo two", object{"pipeStdin": true})
	p.wait(func(m message) bool { return m.Method == "process/output" })
	other := dial(t, url)
	other.refuse("initialize", object{"clientName": "t", "resumeSessionId": session}, -32010, "already attached")
	p.ws.Close()
	q := dial(t, url)
	q.resume(session)
	q.text(`{"method":"initialized"}`)
	q.call("process/write", object{"processId": "p", "chunk": "Cg==", "writeId": "1"}, nil)
	var last event
	q.wait(func(m message) bool { return m.Method == "process/closed" })
	for _, m := range q.held {
		if m.Method == "process/exited" && strings.Contains(string(m.Params), `"seq":3`) {
			last.Seq = 3
		}
	}
	if last.Seq != 3 {
		t.Errorf("events after the resume: %+v", q.held)
	}
}

func TestSessionsEnd(t *testing.T) {
	for _, ttl := range []time.Duration{-1, 50 * time.Millisecond} {
		_, url := newTestServer(t, Options{SessionTTL: ttl})
		p, session := hello(t, url)
		p.start("p", "echo $$; exec sleep 1000")
		m := p.wait(func(m message) bool { return m.Method == "process/output" })
		pid := pidIn(t, m)
		p.ws.Close()
		awaitGone(t, pid)
		q := dial(t, url)
		testutil.Eventually(t.Context(), t, fmt.Sprintf("the end of the session (ttl %v)", ttl), func() (string, bool) {
			m := q.answer(q.send("initialize", object{"clientName": "t", "resumeSessionId": session}))
			return fmt.Sprintf("%+v", m), m.Error != nil && m.Error.Code == -32600
		})
	}
}

func TestShutdownEndsProcessesAndTellsClients(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	srv, url := newTestServer(t, withCgroups())
	p, _ := hello(t, url)
	p.start("p", "setsid sh -c 'echo $$; exec sleep 1000' & wait")
	pid := pidIn(t, p.wait(func(m message) bool { return m.Method == "process/output" }))
	// If the context of a call ends, the caller can call Shutdown again.
	over, cancel := context.WithCancel(t.Context())
	cancel()
	if err := srv.Shutdown(over); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if err := srv.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	awaitGone(t, pid)
	if code, _ := p.closing(); code != wire.CloseGoingAway {
		t.Errorf("closed with %d", code)
	}
}

func pidIn(t *testing.T, m message) int {
	t.Helper()
	_, chunk, _ := strings.Cut(string(m.Params), `"chunk":"`)
	text, _, _ := strings.Cut(chunk, `"`)
	raw, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(raw)))
	if err != nil {
		t.Fatal(err)
	}
	return pid
}

// awaitGone waits for the end of a process that is not a child of this one.
func awaitGone(t *testing.T, pid int) {
	t.Helper()
	testutil.Eventually(t.Context(), t, fmt.Sprintf("the end of process %d", pid), func() (string, bool) { return testutil.Gone(pid) })
}

// resume resumes a session after the server has noticed that the session's previous connection
// has ended.
func (p *peer) resume(session string) {
	p.t.Helper()
	testutil.Eventually(p.t.Context(), p.t, "the session to be free", func() (string, bool) {
		m := p.answer(p.send("initialize", object{"clientName": "t", "resumeSessionId": session}))
		if m.Error != nil && m.Error.Code != -32010 {
			p.t.Fatalf("resume: %+v", m.Error)
		}
		return fmt.Sprintf("%+v", m.Error), m.Error == nil
	})
}

// TestAtomicWritesBelongToTheSession: an atomic write goes on after its session was resumed, and no
// other session knows its handle. Other handles end with their connection.
func TestAtomicWritesBelongToTheSession(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	dir := t.TempDir()
	p, session := hello(t, url)
	p.call("fs/open", object{"handleId": "w", "path": uri(dir, "f"), "mode": "replace", "atomic": true}, nil)
	p.call("fs/open", object{"handleId": "plain", "path": uri(dir, "g"), "mode": "replace"}, nil)
	p.call("fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "bmV3"}, nil)
	p.refuse("fs/open", object{"handleId": "w", "path": uri(dir, "h"), "mode": "replace"}, -32600, "already exists")

	other, _ := hello(t, url)
	other.refuse("fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "bmV3"}, -32004, "unknown")
	q := takeOver(t, url, session)
	q.refuse("fs/writeBlock", object{"handleId": "plain", "offset": 0, "chunk": "bmV3"}, -32004, "unknown")
	q.refuse("fs/open", object{"handleId": "w", "path": uri(dir, "h"), "mode": "replace", "atomic": true}, -32600, "already exists")
	q.call("fs/writeBlock", object{"handleId": "w", "offset": 3, "chunk": "bmV3"}, nil)
	p.ws.Close()
	awaitConns(t, srv, 2)
	q.call("fs/close", object{"handleId": "w"}, nil)
	if data, err := os.ReadFile(dir + "/f"); err != nil || string(data) != "newnew" {
		t.Errorf("got %q, error %v; want %q", data, err, "newnew")
	}

	// If the session ends first, the target is unchanged, and no temporary file is left.
	q.call("fs/open", object{"handleId": "w", "path": uri(dir, "f"), "mode": "replace", "atomic": true}, nil)
	q.call("fs/writeBlock", object{"handleId": "w", "offset": 0, "chunk": "b2xk"}, nil)
	srv.mu.Lock()
	s := srv.sessions[session]
	srv.mu.Unlock()
	s.end("the test ends it", false)
	q.refuse("fs/open", object{"handleId": "late", "path": uri(dir, "f"), "mode": "replace", "atomic": true}, -32600, "the session has ended")
	names, _ := os.ReadDir(dir)
	if data, err := os.ReadFile(dir + "/f"); err != nil || string(data) != "newnew" || len(names) != 2 {
		t.Errorf("got %q, error %v, files %v; want %q, and only f and g", data, err, names, "newnew")
	}
}
