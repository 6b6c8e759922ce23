package execserver

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/detach"
	"codex.internal/pkg/wire/websocket"
)

// ownedTransport is a transport whose kind of client the test chooses.
type ownedTransport struct {
	websocket.Transport
	peer string
}

func (o ownedTransport) Peer() string { return o.peer }

// TestOwnersOfDetached: a client that cannot be distinguished from others owns no
// processes.
func TestOwnersOfDetached(t *testing.T) {
	srv := &Server{detached: detach.NewStore(detach.Options{})}
	for _, tt := range []struct {
		transport websocket.Transport
		principal string
		want      string
	}{
		{ownedTransport{peer: "stdio"}, "", userPrincipal(os.Geteuid())},
		{ownedTransport{peer: "unix"}, "user 7", "user 7"},
		{ownedTransport{peer: "1.2.3.4:5"}, "capability-token 12", "capability-token 12"},
		{ownedTransport{peer: "1.2.3.4:5"}, anybody, ""},
		{ownedTransport{peer: "pipe"}, "", ""},
		{ownedTransport{peer: "relay stream 5"}, "harness 12", "harness 12"},
	} {
		c := &conn{srv: srv, t: tt.transport, principal: tt.principal}
		if got, err := c.ownerOf(); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%+v %q: got %q, error %v; want %q, success: %v", tt.transport, tt.principal, got, err, tt.want, tt.want != "")
		}
	}
}

// TestKeeperRefuses: a keeper refuses clients without the secret of its process, and starts no
// other process.
func TestKeeperRefuses(t *testing.T) {
	srv, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Shutdown(t.Context()) })
	secret := strings.Repeat("0123", 16)
	record := detach.Record{Owner: "me", ProcessID: execproto.DetachedPrefix + "p", StartID: "s", Secret: secret}
	if err := srv.keep(&detach.Keeper{Record: record}); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "socket")
	l, err := websocket.ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(t.Context(), l)
	}()
	t.Cleanup(func() { _ = srv.Shutdown(t.Context()); <-served })
	for _, secret := range []string{"", strings.Repeat("3210", 16), secret[:10]} {
		if c, err := execclient.DialWebSocket(t.Context(), "unix://"+path, execclient.Options{BearerToken: secret, RecoveryTimeout: -1}); err == nil {
			_ = c.Close()
			t.Errorf("a client with the secret %q is admitted", secret)
		}
	}
	c, err := execclient.DialWebSocket(t.Context(), "unix://"+path, execclient.Options{BearerToken: record.Secret, RecoveryTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, params := range []execproto.StartParams{
		{ProcessID: "p"},
		{ProcessID: record.ProcessID},
		{ProcessID: record.ProcessID, Detach: &execproto.Detach{StartID: "other"}},
		{ProcessID: record.ProcessID + "x", Detach: &execproto.Detach{StartID: "s"}},
	} {
		params.Argv, params.Cwd, params.Env = []string{"true"}, "file:///", map[string]string{}
		err := c.Call(t.Context(), execproto.MethodProcessStart, &params, nil)
		var refused *execclient.ServerError
		if !errors.As(err, &refused) || refused.Code != execproto.CodeInvalidRequest {
			t.Errorf("%+v: got error %v; want errors.As(err, &refused), refused.Code %v", params, err, execproto.CodeInvalidRequest)
		}
	}
}
