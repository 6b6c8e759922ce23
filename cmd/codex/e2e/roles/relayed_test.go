package roles

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil"
)

// relayedWorld is a world with a rendezvous service and any backend.
func relayedWorld(t *testing.T) *world {
	harness.NeedSandbox(t)
	return newWorldOf(t, pair{"auto", os.Geteuid()}, true)
}

// TestNamesThroughARendezvous: a client connects through a rendezvous service. The server's audit trail names the client's
// token, or has its id if the token has no name.
func TestNamesThroughARendezvous(t *testing.T) {
	t.Parallel()
	w := relayedWorld(t)
	named, unnamed := w.token("--role", "run", "--name", "ada", "--cwd", w.ws), w.token("--role", "run", "--max-sandbox", "read-only")
	reader := w.token("--role", "read", "--name", "reviewer")
	trail := w.dir + "/state/audit"
	w.serve("--audit-log", trail)
	for _, token := range []string{named, unnamed} {
		_, _, err := run(t.Context(), w.client(token), w.params("p", managed(), "true"))
		harness.Must(t, err)
	}
	if _, _, err := run(t.Context(), w.client(reader), w.params("p", managed(), "true")); err == nil || !strings.Contains(err.Error(), "the role run") {
		t.Errorf("a start with the role read: got error %v, want one with %q", err, "the role run")
	}
	text, err := os.ReadFile(trail)
	harness.Must(t, err)
	for _, want := range []string{`"principal":"token ada"`, `"principal":"token ` + id(unnamed) + `"`, `"principal":"token reviewer"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("got the trail\n%s\nwant one with %s", text, want)
		}
	}
}

// TestSessionsOfOthersThroughARendezvous: no other client can resume a session, whatever its token permits.
func TestSessionsOfOthersThroughARendezvous(t *testing.T) {
	t.Parallel()
	w := relayedWorld(t)
	first, second, admin := w.token("--role", "run"), w.token("--role", "run", "--max-sandbox", "read-only"), w.token("--role", "admin")
	w.serve()
	c := w.client(first)
	p, err := c.Start(t.Context(), w.params("p", nil, "echo said; exec sleep 1000"))
	harness.Must(t, err)
	for name, token := range map[string]string{"same token": first, "another": second, "admin": admin} {
		if other, err := w.dial(token, c.SessionID()); err == nil || !strings.Contains(err.Error(), "unknown session") {
			t.Errorf("%s: got client %v, error %v; want an unknown session", name, other, err)
		}
	}
	if _, err := w.client(second).ListProcesses(t.Context(), execproto.ListParams{Scope: execproto.ListServer}); err == nil {
		t.Errorf("a client with the role run lists the processes of the server")
	}
	if ended, err := p.Terminate(t.Context()); err != nil || !ended {
		t.Errorf("afterwards: got ended %v, error %v; want a running process", ended, err)
	}
}

// TestLoweredTokenThroughARendezvous: when a token's permissions are reduced, its client is disconnected. After the client
// reconnects, the new ceiling applies.
func TestLoweredTokenThroughARendezvous(t *testing.T) {
	t.Parallel()
	w := relayedWorld(t)
	token := w.token("--role", "run")
	w.serve()
	c := w.client(token)
	if _, code, err := run(t.Context(), c, w.params("before", nil, "echo x > "+w.ws+"/before")); err != nil || code != 0 {
		t.Fatalf("got code %d, error %v; want a command that writes", code, err)
	}
	w.change(token, "maxSandbox", "read-only")
	testutil.Eventually(t.Context(), t, "the end of the connection", func() (string, bool) {
		_, _, err := run(t.Context(), c, w.params("after", nil, "true"))
		return errorText(err), err != nil && !execproto.IsProcessExists(err)
	})
	if _, _, err := run(t.Context(), w.client(token), w.params("now", nil, "true")); err == nil || !strings.Contains(err.Error(), "sandbox") {
		t.Errorf("a command without a sandbox: got error %v, want one about the sandbox", err)
	}
}

// TestTokenIsKeptFromCommands: no command of the server's user can read the server's environment, arguments or memory. A
// sandboxed command cannot see the token's file.
func TestTokenIsKeptFromCommands(t *testing.T) {
	t.Parallel()
	harness.NeedSandbox(t)
	user := pair{"auto", os.Geteuid()}
	if user.uid == 0 {
		user.uid = nobody // root may read all files
	}
	w := newWorldOf(t, user, true)
	token := w.token("--role", "run")
	server := w.serve()
	c := w.client(token)
	for name, tt := range map[string]struct {
		file    string
		sandbox object
	}{
		"environment": {fmt.Sprintf("/proc/%d/environ", server.Process.Pid), nil},
		"memory":      {fmt.Sprintf("/proc/%d/mem", server.Process.Pid), nil},
		"token":       {w.dir + "/home/executor", managed()},
	} {
		out, code, err := run(t.Context(), c, w.params(name, tt.sandbox, "cat "+tt.file))
		if err != nil || code == 0 || strings.Contains(out, "not-this-one") || strings.Contains(out, "cxr_") {
			t.Errorf("%s: got %q, code %d, error %v; want a failure", name, out, code, err)
		}
	}
}

// TestRotatedExecutorToken: the token of a server is revoked. If its file contains another one by then, the server continues. If
// not, its registration ends at once, and the server ends after --session-ttl, so that commands have the same time as after any
// lost connection.
func TestRotatedExecutorToken(t *testing.T) {
	t.Parallel()
	w := relayedWorld(t)
	token, next := w.token("--role", "run"), w.token("--role", "executor")
	server := w.serve("--session-ttl", "10s")
	executor := w.dir + "/home/executor"
	revoke := func() (at time.Time) {
		text, err := os.ReadFile(executor)
		harness.Must(t, err)
		if out, err := w.command("rendezvous", "token", "revoke", "--tokens", w.tokens, id(string(text))).CombinedOutput(); err != nil {
			t.Fatalf("got error %v, output %s; want no error", err, out)
		}
		return time.Now()
	}
	d, err := harness.NewRelayDialer(w.url, token, environment, nil)
	harness.Must(t, err)
	c, err := execclient.Dial(t.Context(), d, execclient.Options{})
	harness.Must(t, err)
	defer c.Close()
	revoke()
	w.write(executor, next)
	// The service checks tokens twice a minute.
	if out, code, err := run(t.Context(), c, w.params("across", nil, "sleep 40; echo ran")); err != nil || code != 0 || out != "ran\n" {
		t.Errorf("a command across the rotation: got %q, code %d, error %v; want that it runs to its end", out, code, err)
	}
	_, err = c.Start(t.Context(), w.params("last", nil, "echo $$ > "+w.dir+"/last; exec sleep 1000"))
	harness.Must(t, err)
	pid := w.pid(w.dir + "/last")
	revoke()
	testutil.Eventually(t.Context(), t, "the end of the registration", func() (string, bool) {
		other, err := w.dial(token, "")
		if err == nil {
			_ = other.Close()
		}
		return errorText(err), strings.Contains(errorText(err), "is not connected")
	})
	if err := syscall.Kill(pid, 0); err != nil {
		t.Errorf("the command ended with the registration: %v", err)
	}
	harness.AwaitGone(t, pid)
	if err := server.Wait(); err == nil {
		t.Errorf("the server ends without an error, want one about its token")
	}
}
