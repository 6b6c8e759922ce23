package execserver

import (
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/wsauth"
	"github.com/gorilla/websocket"
)

// TestSessionsBelongToAToken: of two tokens of one principal neither can resume a session of the
// other, which may permit more.
func TestSessionsBelongToAToken(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := wsauth.OpenTokens(path)
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: path})
	if err != nil {
		t.Fatal(err)
	}
	_, url := newTestServer(t, Options{Auth: auth})
	connect := func(secret string) *peer {
		t.Helper()
		ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + secret}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { ws.Close() })
		return &peer{t: t, ws: ws}
	}
	token := func(role wsauth.Role, ceiling wsauth.Ceiling) string {
		t.Helper()
		secret, _, err := file.Create(t.Context(), wsauth.TokenSpec{Name: "t", Role: role, Principal: "one", Ceiling: ceiling})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	run := token(wsauth.RoleRun, wsauth.Ceiling{})
	owner := connect(run)
	session := owner.initialize("")
	for name, secret := range map[string]string{
		"read": token(wsauth.RoleRead, wsauth.Ceiling{}), "confined": token(wsauth.RoleRun, wsauth.Ceiling{MaxSandbox: wsauth.SandboxReadOnly}),
		"the same": token(wsauth.RoleRun, wsauth.Ceiling{}), "admin": token(wsauth.RoleAdmin, wsauth.Ceiling{}),
	} {
		t.Run(name, func(t *testing.T) {
			other := connect(secret)
			other.t = t
			for _, takeOver := range []bool{false, true} {
				other.refuse("initialize", object{"clientName": "t", "resumeSessionId": session, "takeOver": takeOver}, -32600, "unknown session id "+session)
			}
		})
	}
	owner.ws.Close()
	connect(run).initialize(session) // the control
}

// TestWebPagesGetNoWebsocket: neither at a server's port nor in the mux of another program.
func TestWebPagesGetNoWebsocket(t *testing.T) {
	srv, url := newTestServer(t, Options{})
	mux := httptest.NewServer(srv)
	t.Cleanup(mux.Close)
	for _, url := range []string{url, "ws" + strings.TrimPrefix(mux.URL, "http") + "/any"} {
		for _, origin := range []string{"http://x", "null", "http" + strings.TrimPrefix(url, "ws")} {
			ws, res, err := websocket.DefaultDialer.Dial(url, http.Header{"Origin": {origin}})
			if err == nil {
				ws.Close()
			}
			if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
				t.Errorf("%s from %q: %v", url, origin, err)
			}
		}
		dial(t, url).initialize("") // the control
	}
}
