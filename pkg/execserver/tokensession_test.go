package execserver

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/testutil"
	"github.com/golang-jwt/jwt/v5"
	"github.com/gorilla/websocket"
)

// TestSessionsBelongToAToken: a token cannot resume a session of another token of the same
// principal, because the other token may permit more.
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
	connect(run).initialize(session) // for comparison
}

// TestPrincipalsAreNamed: every record of a session, and of a client that is refused although its token is known, names the
// principal, so that one search of the log shows who has done something. The metrics and the status page show who sends
// requests, and with which build.
func TestPrincipalsAreNamed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := wsauth.OpenTokens(path)
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: path})
	if err != nil {
		t.Fatal(err)
	}
	token := func(ttl time.Duration) http.Header {
		secret, _, err := file.Create(t.Context(), wsauth.TokenSpec{Name: "t", Role: wsauth.RoleAdmin, Principal: "alice", TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return http.Header{"Authorization": {"Bearer " + secret}}
	}
	lasting, expired := token(0), token(time.Nanosecond)
	lasting.Set("User-Agent", "test/1.2.3")
	token(2 * time.Hour)
	ending := wsauth.TokenID(strings.TrimPrefix(token(time.Hour).Get("Authorization"), "Bearer "))
	id := wsauth.TokenID(strings.TrimPrefix(lasting.Get("Authorization"), "Bearer "))
	expiredID := wsauth.TokenID(strings.TrimPrefix(expired.Get("Authorization"), "Bearer "))
	var log logText
	srv, url := newTestServer(t, Options{Auth: auth, MaxConnections: 1, MetricsPrincipals: 10, SessionTTL: -1, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	ws, _, err := websocket.DefaultDialer.Dial(url, lasting)
	if err != nil {
		t.Fatal(err)
	}
	p := &peer{t: t, ws: ws}
	p.initialize("")
	for header, status := range map[*http.Header]int{&lasting: http.StatusServiceUnavailable, &expired: http.StatusUnauthorized} {
		if _, res, err := websocket.DefaultDialer.Dial(url, *header); err == nil || res == nil || res.StatusCode != status {
			t.Fatalf("got %v, %v, want status %d", res, err, status)
		}
	}
	p.start("p1", "exit 3", nil)
	p.closed("p1")
	end, err := file.Find(ending)
	if err != nil {
		t.Fatal(err)
	}
	metrics := httptest.NewRecorder()
	srv.Metrics().ServeHTTP(metrics, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	for _, want := range []string{
		`exec_server_principal_requests_total{principal="principal alice"} 2`, `exec_server_principal_processes_started_total{principal="principal alice"} 1`,
		`exec_server_principal_limit_used{principal="principal alice",limit="connections"} 1`, `exec_server_clients_active{client="test",build="test/1.2.3"} 1`,
		fmt.Sprintf("exec_server_token_expiry_timestamp_seconds %d", end.Expires.Unix()),
	} {
		if !strings.Contains(metrics.Body.String(), "\n"+want+"\n") {
			t.Errorf("the metrics have no %s:\n%s", want, metrics.Body.String())
		}
	}
	_, _, page := getStatus(t, url, "Accept", "application/json", "Authorization", lasting.Get("Authorization"))
	if want := `"requests":1,`; !strings.Contains(page, want) {
		t.Errorf("the status page has no %s: %s", want, page)
	}
	ws.Close()
	awaitConns(t, srv, 0)
	testutil.Eventually(t.Context(), t, "the end of the session in the log", func() (string, bool) { return log.String(), strings.Contains(log.String(), "session ended") })
	records := 0
	for line := range strings.Lines(log.String()) {
		if strings.Contains(line, " session=") {
			records++
			if strings.Count(line, `principal="principal alice"`) != 1 {
				t.Errorf("got %s, want the principal once", line)
			}
		}
	}
	if records < 4 {
		t.Errorf("the log has %d records of the session:\n%s", records, log.String())
	}
	for _, want := range []string{"connection refused", `principal="principal alice"`, `principal="token ` + expiredID + `"`, "token=" + id} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the log has no %s:\n%s", want, log.String())
		}
	}
}

// TestTokensEndConnections: within 5 s after its token has become invalid, a connection is
// closed with the reason, even if it has sent nothing yet. Scenario: an operator revokes a
// token whose holder has already opened all connections that the server permits, for later use.
func TestTokensEndConnections(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	roles := wsauth.OpenTokens(filepath.Join(dir, "tokens.json"))
	role := func(ttl time.Duration) string {
		secret, _, err := roles.Create(t.Context(), wsauth.TokenSpec{Name: "t", Role: wsauth.RoleRun, TTL: ttl})
		if err != nil {
			t.Fatal(err)
		}
		return secret
	}
	const lasts = 2 * time.Second // lifetime of tokens that expire
	secret, capability, skew := strings.Repeat("s", 32), strings.Repeat("a", 32), time.Duration(0)
	signed := func() string {
		token := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"exp": time.Now().Add(lasts).Unix()})
		text, err := token.SignedString([]byte(secret))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	file := write("capability", capability)
	byRole := wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: roles.Path()}
	for _, tt := range []struct {
		name, reason string
		config       wsauth.Config
		token        func() string
		end          func(token string) error // nil: the token expires
		sessions     int                      // number of remaining sessions
	}{
		{"revoked", "the token was revoked or changed", byRole, func() string { return role(0) }, func(token string) error {
			_, err := roles.Revoke(t.Context(), wsauth.TokenID(token))
			return err
		}, 0},
		{"expired", "the token has expired", byRole, func() string { return role(lasts) }, nil, 0},
		{"capability", "the token was revoked or changed", wsauth.Config{Mode: wsauth.CapabilityToken, TokenFile: file},
			func() string { return capability }, func(string) error { return os.WriteFile(file, []byte(strings.Repeat("b", 32)), 0o600) }, 0},
		{"JWT", "the token has expired", wsauth.Config{Mode: wsauth.SignedBearerToken, SharedSecretFile: write("secret", secret), ClockSkew: &skew}, signed, nil, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			auth, err := wsauth.New(tt.config)
			if err != nil {
				t.Fatal(err)
			}
			srv, url := newTestServer(t, Options{Auth: auth})
			token := tt.token()
			connect := func() *websocket.Conn {
				ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + token}})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { ws.Close() })
				return ws
			}
			silent, active := connect(), connect()
			(&peer{t: t, ws: active}).initialize("")
			if tt.end != nil {
				if err := tt.end(token); err != nil {
					t.Fatal(err)
				}
			}
			for name, ws := range map[string]*websocket.Conn{"silent": silent, "active": active} {
				_ = ws.SetReadDeadline(time.Now().Add(lasts + 5*time.Second))
				var closed *websocket.CloseError
				if _, _, err := ws.ReadMessage(); !errors.As(err, &closed) || closed.Code != websocket.ClosePolicyViolation || closed.Text != tt.reason {
					t.Errorf("%s: got %v, want it closed with %d %s", name, err, websocket.ClosePolicyViolation, tt.reason)
				}
			}
			testutil.Eventually(t.Context(), t, "the sessions that are left", func() (string, bool) {
				totals := srv.totals()
				return fmt.Sprintf("%+v", totals), totals.Attached == 0 && totals.Detached == tt.sessions
			})
		})
	}
}

// TestWebPagesGetNoWebsocket: a web page cannot open a websocket, neither at a server's port
// nor in the mux of another program.
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
		dial(t, url).initialize("") // for comparison
	}
}

// TestReadersStayInTheirSandbox: the methods that read outside of any sandbox are neither
// announced to a token that may only read or has a directory, nor permitted to it.
func TestReadersStayInTheirSandbox(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "tokens.json")
	file := wsauth.OpenTokens(path)
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokensFile: path})
	if err != nil {
		t.Fatal(err)
	}
	_, url := newTestServer(t, Options{Auth: auth, CodexHome: dir})
	for _, tt := range []struct {
		name  string
		token wsauth.TokenSpec
		may   bool
	}{
		{"read", wsauth.TokenSpec{Role: wsauth.RoleRead}, false},
		{"directory", wsauth.TokenSpec{Role: wsauth.RoleRun, Ceiling: wsauth.Ceiling{Dir: dir}}, false},
		{"run", wsauth.TokenSpec{Role: wsauth.RoleRun}, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.token.Name = tt.name
			secret, _, err := file.Create(t.Context(), tt.token)
			if err != nil {
				t.Fatal(err)
			}
			ws, _, err := websocket.DefaultDialer.Dial(url, http.Header{"Authorization": {"Bearer " + secret}})
			if err != nil {
				t.Fatal(err)
			}
			defer ws.Close()
			p := &peer{t: t, ws: ws}
			p.initialize("")
			var info execproto.EnvironmentInfo
			p.call(execproto.MethodEnvironmentInfo, nil, &info)
			if c := info.Capabilities; c.EnvironmentConfigRead != tt.may || c.FSWatchMissing != tt.may {
				t.Errorf("announced: environmentConfigRead %v, fsWatchMissing %v; want %v", c.EnvironmentConfigRead, c.FSWatchMissing, tt.may)
			}
			config := object{"cwd": uri(dir, ""), "configPaths": [][]string{{"mcp_servers"}}, "requirementsPaths": [][]string{}}
			missing := object{"watchId": 1, "missing": []string{uri(dir, "none")}}
			if tt.may {
				p.call(execproto.MethodEnvironmentConfigRead, config, nil)
				p.call(execproto.MethodFSWatchMissing, missing, nil)
				return
			}
			p.refuse(execproto.MethodEnvironmentConfigRead, config, execproto.CodeInvalidRequest, "")
			p.refuse(execproto.MethodFSWatchMissing, missing, execproto.CodeInvalidRequest, "")
		})
	}
}
