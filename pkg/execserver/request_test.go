package execserver

import (
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"

	"codex.internal/pkg/sandbox/runner"
	"codex.internal/pkg/testutil"
)

// blockProbe replaces the server's confiner, and gives it a launcher whose probe of the
// backends waits until release is called. Instead of making a sandbox, the launcher executes
// cat. No request may be in progress.
func blockProbe(t *testing.T, srv *Server) (release func()) {
	t.Helper()
	dir := t.TempDir()
	gate, launcher := filepath.Join(dir, "gate"), filepath.Join(dir, "launcher")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	script := "#!/bin/sh\ncase \"$*\" in *--probe*) read -r x <" + gate + "; echo '{\"backends\":[]}' ;; *) exec /bin/cat ;; esac\n"
	if err := testutil.WriteProgram(launcher, []byte(script)); err != nil {
		t.Fatal(err)
	}
	srv.opts.Sandbox = runner.Options{Launcher: launcher, Helper: launcher}
	srv.confiner.Close()
	srv.confiner = srv.newConfiner()
	return func() {
		// Open it for reading too: if the probe has not begun, or was given up, the FIFO has no
		// reader, and opening it only for writing would block.
		if f, err := os.OpenFile(gate, os.O_RDWR, 0); err == nil {
			t.Cleanup(func() { f.Close() })
			_, _ = f.WriteString("\n")
		}
	}
}

// confinedStart returns the params of a confined process/start.
func confinedStart(id string) object {
	return startObject(id, "", object{"pipeStdin": true, "sandbox": object{"permissions": object{
		"type": "managed", "network": "restricted", "file_system": object{"type": "restricted", "entries": []any{}},
	}}})
}

// TestTheProbeOfTheBackendsDelaysNothingElse: while a process/start waits for the probe of the
// backends, the server answers the connection's other requests, and requests about that process
// keep their order.
func TestTheProbeOfTheBackendsDelaysNothingElse(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	release := blockProbe(t, srv)
	start := p.send("process/start", confinedStart("p"))
	want := ""
	var writes []string
	for i := range 20 {
		line := fmt.Sprintln("line", i)
		want += line
		writes = append(writes, p.send("process/write", object{
			"processId": "p", "chunk": base64.StdEncoding.EncodeToString([]byte(line)), "writeId": fmt.Sprint(i),
		}))
	}
	end := p.send("process/closeStdin", object{"processId": "p"})
	status := p.send("environment/status", object{})
	if m := p.read(); string(m.ID) != status {
		t.Errorf("the first answer is to %s: %s %+v", m.ID, m.Result, m.Error)
	}
	p.start("q", "echo here")
	if out, code := p.closed("q"); out != "here\n" || code != 0 {
		t.Errorf("another process: %q, %d", out, code)
	}
	for _, m := range p.held {
		t.Errorf("answered before the probe was over: %+v", m)
	}
	release()
	for _, id := range append([]string{start, end}, writes...) {
		if m := p.answer(id); m.Error != nil {
			t.Errorf("request %s: %+v", id, m.Error)
		}
	}
	if out, code := p.closed("p"); out != want || code != 0 {
		t.Errorf("got out %q, code %d; want out %q, code 0", out, code, want)
	}
}

// TestAStartThatNeverRunsIsForgotten: a connection is taken over while its reader waits for a
// slot for a start. The start never runs, and its id can be used again.
func TestAStartThatNeverRunsIsForgotten(t *testing.T) {
	srv, url := newTestServer(t, Options{ConcurrentRequests: 1})
	p, session := hello(t, url)
	release := blockProbe(t, srv)
	p.send("process/start", confinedStart("p"))
	for range backlogRequests {
		p.send("fs/getMetadata", object{"path": "file:///"})
	}
	p.send("process/start", startObject("q", "exit 3"))
	awaitProcess(t, srv, session, "q", true)
	next := dial(t, url)
	resumed := next.send("initialize", object{"clientName": "t", "resumeSessionId": session, "takeOver": true})
	next.text(`{"method":"initialized"}`)
	awaitProcess(t, srv, session, "q", false)
	release()
	if m := next.answer(resumed); m.Error != nil {
		t.Error(m.Error)
	}
	next.start("q", "exit 4")
	if _, code := next.closed("q"); code != 4 {
		t.Errorf("exit code %d", code)
	}
	next.call("process/terminate", object{"processId": "p"}, nil)
	for _, m := range next.held {
		if strings.Contains(string(m.Params), `"processId":"q"`) {
			t.Errorf("got %+v, want m.Params without %q", m, `"processId":"q"`)
		}
	}
}

// awaitProcess waits until a session has a process with that id, or has none.
func awaitProcess(t *testing.T, srv *Server, session, id string, there bool) {
	t.Helper()
	srv.mu.Lock()
	s := srv.sessions[session]
	srv.mu.Unlock()
	testutil.Eventually(t.Context(), t, fmt.Sprintf("process %s there: %t", id, there), func() (string, bool) {
		found := s.find(id) != nil
		return fmt.Sprint(found), found == there
	})
}

// TestADroppedRequestKeepsTheOrder: after a request was dropped, later requests still wait for
// the earlier ones.
func TestADroppedRequestKeepsTheOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var o sequence
		c := &conn{lanes: newLanes(t.Context(), 1, nil, nil)}
		first, second, third := o.enter("a"), o.enter("a"), o.enter("a")
		dropped := false
		c.drop(call{turn: second, drop: func() { dropped = true }})
		came := false
		go func() {
			third.wait()
			came = true
		}()
		synctest.Wait()
		if !dropped || came {
			t.Errorf("dropped %t, the third came before the first ended %t", dropped, came)
		}
		o.enter("b").leave()
		first.leave()
		synctest.Wait()
		if !came {
			t.Error("the third request never gets its turn")
		}
		third.leave()
		if len(o.last) != 0 {
			t.Errorf("%d objects are remembered", len(o.last))
		}
	})
}
