package roles

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/testutil"
)

// grantTime is the longest time for which a revoked or changed token is still valid
// (docs/spec/wire.md §1.7), plus a margin for a busy machine.
const grantTime = 5*time.Second + harness.Patience/2

// TestTokensEnd: a token ends, in several ways, while its client is connected. The session then
// ends with its processes, tunnels and watches. Detached processes continue.
func TestTokensEnd(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	var sessions []*busySession
	for name, end := range map[string]func(w *world, token string){
		"expired": func(*world, string) {},
		"revoked": func(w *world, token string) {
			if out, err := w.command("exec-server", "token", "revoke", "--tokens", w.tokens, id(token)).CombinedOutput(); err != nil {
				w.t.Errorf("got error %v, stdout %s; want no error", err, out)
			}
		},
		"file removed": func(w *world, _ string) { harness.Must(w.t, os.Remove(w.tokens)) },
		"file invalid": func(w *world, _ string) { w.write(w.tokens, "{") },
		"file of all":  func(w *world, _ string) { harness.Must(w.t, os.Chmod(w.tokens, 0o666)) },
		"a FIFO": func(w *world, _ string) {
			harness.Must(w.t, os.Remove(w.tokens))
			harness.Must(w.t, syscall.Mkfifo(w.tokens, 0o600))
		},
		"lower role":    func(w *world, token string) { w.change(token, "role", "read") },
		"lower ceiling": func(w *world, token string) { w.change(token, "maxSandbox", "read-only") },
		"other limits":  func(w *world, token string) { w.change(token, "limits", object{"pids": 5}) },
	} {
		w := newWorld(t, "auto", nil)
		args := []string{"--role", "run"}
		if name == "expired" {
			args = append(args, "--expires", "5s")
		}
		token := w.token(args...)
		w.serve()
		session := w.busy(token)
		session.name = name
		end(w, token)
		sessions = append(sessions, session)
	}
	for _, s := range sessions { // all sessions wait at the same time
		s.awaitEnd()
	}
}

// busySession is a session with resources that must end with it.
type busySession struct {
	name              string
	w                 *world
	client            *execclient.Client
	tunnel            *execclient.TunnelListener
	watch             *execclient.Watch
	process, detached int // process ids
}

// pid returns the process id that a process has written to a file.
func (w *world) pid(name string) int {
	w.t.Helper()
	var pid int
	testutil.Eventually(w.t.Context(), w.t, "the pid in "+name, func() (string, bool) {
		text, err := os.ReadFile(name)
		var e2 error
		pid, e2 = strconv.Atoi(strings.TrimSpace(string(text)))
		return fmt.Sprint(err, e2), err == nil && e2 == nil
	})
	return pid
}

func (w *world) busy(token string) *busySession {
	w.t.Helper()
	ctx := w.t.Context()
	s := &busySession{w: w, client: w.client(token)}
	_, err := s.client.Start(ctx, w.params("p", nil, "echo $$ > "+w.dir+"/p; exec sleep 1000"))
	harness.Must(w.t, err)
	_, err = s.client.StartDetached(ctx, w.params("d", nil, "echo $$ > "+w.dir+"/d; exec sleep 1000"))
	harness.Must(w.t, err)
	s.process, s.detached = w.pid(w.dir+"/p"), w.pid(w.dir+"/d")
	w.t.Cleanup(func() { _ = syscall.Kill(s.detached, syscall.SIGKILL) })
	s.tunnel, err = s.client.Listen(ctx, "", 0)
	harness.Must(w.t, err)
	s.watch, err = s.client.FS().Watch(ctx, w.ws, execclient.WatchOptions{})
	harness.Must(w.t, err)
	return s
}

// awaitEnd waits for the end of the session, and checks that none of its resources are left.
func (s *busySession) awaitEnd() {
	t := s.w.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), grantTime)
	defer cancel()
	select {
	case <-s.client.Done():
	case <-ctx.Done():
		t.Fatalf("%s: the session goes on: %v", s.name, s.client.State())
	}
	want := "the token was revoked or changed"
	if s.name == "expired" {
		want = "the token has expired"
	}
	if err := s.client.Err(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: the client is told %v, want %q", s.name, err, want)
	}
	harness.AwaitGone(t, s.process)
	for {
		if _, err := s.watch.Next(ctx); err != nil {
			break
		}
	}
	testutil.Eventually(ctx, t, s.name+": the end of the listener", func() (string, bool) {
		conn, err := net.DialTimeout("tcp", s.tunnel.Addr().String(), time.Second)
		if err == nil {
			_ = conn.Close()
		}
		return fmt.Sprint(err), err != nil
	})
	if err := syscall.Kill(s.detached, 0); err != nil {
		t.Errorf("%s: the detached process has ended: %v", s.name, err)
	}
}

// change changes a member of a token in the file, as an editor would.
func (w *world) change(token, member string, value any) {
	w.t.Helper()
	text, err := os.ReadFile(w.tokens)
	harness.Must(w.t, err)
	var doc struct {
		Version int      `json:"version"`
		Tokens  []object `json:"tokens"`
	}
	harness.Must(w.t, json.Unmarshal(text, &doc))
	for _, t := range doc.Tokens {
		if t["id"] == id(token) {
			t[member] = value
		}
	}
	text, err = json.Marshal(doc)
	harness.Must(w.t, err)
	w.write(w.tokens, string(text))
}

// id returns the id of a token.
func id(token string) string { return strings.Split(token, "_")[1] }

// TestReplacedTokenFile: after the file was replaced, the server admits exactly the tokens in the
// new file. While the file cannot be read, it admits no client, and continues to run.
func TestReplacedTokenFile(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	w := newWorld(t, "auto", nil)
	first := w.token("--role", "run")
	w.serve()
	admitted := func(token string) error {
		c, err := execclient.DialWebSocket(t.Context(), w.url, w.options(token))
		if err == nil {
			_ = c.Close()
		}
		return err
	}
	harness.Must(t, admitted(first))
	original, err := os.ReadFile(w.tokens)
	harness.Must(t, err)
	harness.Must(t, os.Remove(w.tokens))
	second := w.token("--role", "run")
	if admitted(first) == nil || admitted(second) != nil {
		t.Errorf("a file with another token: %v, %v", admitted(first), admitted(second))
	}
	for name, break_ := range map[string]func(){
		"invalid":         func() { w.write(w.tokens, `{"version":1,"tokens":[{}]}`) },
		"of a later form": func() { w.write(w.tokens, `{"version":2,"tokens":[]}`) },
		"of all":          func() { harness.Must(t, os.Chmod(w.tokens, 0o602)) },
		"a directory": func() {
			harness.Must(t, os.Remove(w.tokens))
			harness.Must(t, os.Mkdir(w.tokens, 0o700))
		},
	} {
		harness.Must(t, os.RemoveAll(w.tokens))
		w.write(w.tokens, string(original))
		harness.Must(t, admitted(first))
		break_()
		if err := admitted(first); err == nil || !strings.Contains(err.Error(), "cannot read its tokens") {
			t.Errorf(`%s: got error %v, want an error with "cannot read its tokens"`, name, err)
		}
	}
	harness.Must(t, os.RemoveAll(w.tokens))
	w.write(w.tokens, string(original))
	harness.Must(t, admitted(first))
}
