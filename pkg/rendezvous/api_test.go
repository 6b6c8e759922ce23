package rendezvous

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/iotest"
	"time"

	"codex.internal/pkg/internal/tokens"
)

func TestAPIRefusals(t *testing.T) {
	s := start(t, Options{})
	executorOnly, _ := newToken(t, s.tokens, RoleExecutor, "env")
	harnessOnly, _ := newToken(t, s.tokens, RoleHarness, "env")
	s.register("idle")
	key := keyText(identity())
	registerBody := `{"security_profile":"noise_hybrid_ik_v1","executor_public_key":` + key + `}`
	connectBody := `{"harness_public_key":` + key + `}`
	const env = "/cloud/environment/env/"
	for _, tt := range []struct {
		name, token, path, body string
		status                  int
		code                    string
	}{
		{"no token", "", env + "register", registerBody, 401, "missing_token"},
		{"wrong token", "secret", env + "register", registerBody, 401, "invalid_token"},
		{"role of register", harnessOnly, env + "register", registerBody, 403, "role_not_allowed"},
		{"role of connect", executorOnly, env + "connect", connectBody, 403, "role_not_allowed"},
		{"role of validate", harnessOnly, env + "validate", `{}`, 403, "role_not_allowed"},
		{"environment", executorOnly, "/cloud/environment/env2/register", registerBody, 403, "environment_not_allowed"},
		{"blank environment", s.token, "/cloud/environment/%20/register", registerBody, 400, "invalid_environment_id"},
		{"slash in an environment", s.token, "/cloud/environment/a%2Fb/register", registerBody, 400, "invalid_environment_id"},
		{"control character", s.token, "/cloud/environment/a%0A/x%00/register", registerBody, 404, "not_found"},
		{"long environment", s.token, "/cloud/environment/" + strings.Repeat("e", maxEnvironmentID+1) + "/register", registerBody, 400, "invalid_environment_id"},
		{"no JSON", s.token, env + "register", "x", 400, "invalid_body"},
		{"empty body", s.token, env + "register", "", 400, "invalid_body"},
		{"no key", s.token, env + "register", `{"security_profile":"noise_hybrid_ik_v1"}`, 400, "invalid_body"},
		{"other profile", s.token, env + "register", `{"security_profile":"plain","executor_public_key":` + key + `}`, 400, "unsupported_security_profile"},
		{"other suite", s.token, env + "connect", strings.Replace(connectBody, "Noise_hybridIK", "Noise_IK", 1), 400, "invalid_body"},
		{"more in a key", s.token, env + "connect", strings.Replace(connectBody, `{"suite"`, `{"x":1,"suite"`, 1), 400, "invalid_body"},
		{"no harness key", s.token, env + "connect", `{}`, 400, "invalid_body"},
		{"nothing to validate", s.token, env + "validate", `{}`, 400, "invalid_body"},
		{"too large", s.token, env + "register", strings.Repeat(" ", maxBody+1), 413, "body_too_large"},
		{"not registered", s.token, env + "connect", connectBody, 503, "environment_not_registered"},
		{"not connected", s.token, "/cloud/environment/idle/connect", connectBody, 503, "environment_offline"},
		{"no such call", s.token, env + "destroy", "{}", 404, "not_found"},
	} {
		a := s.post(tt.token, tt.path, tt.body)
		if a.status != tt.status || a.Error.Code != tt.code || a.Error.Message == "" {
			t.Errorf(`%s: got a.status %d, a.body %s; want a.status %d, a.Error.Code %v, a.Error.Message other than ""`, tt.name, a.status, a.body, tt.status, tt.code)
		}
	}
	if w := s.get("/healthz", "Origin", "https://example.com"); w.Code != 403 {
		t.Errorf("a web page: %d", w.Code)
	}
}

// TestIncompleteBody: if the body of a request ends early, the client may not be at fault, so it
// gets a status after which it retries.
func TestIncompleteBody(t *testing.T) {
	s := start(t, Options{})
	r := httptest.NewRequest(http.MethodPost, "/cloud/environment/env/connect", io.MultiReader(strings.NewReader("{"), iotest.ErrReader(io.ErrUnexpectedEOF)))
	r.Header.Set("Authorization", "Bearer "+s.token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if w.Code != http.StatusRequestTimeout || !strings.Contains(w.Body.String(), `"incomplete_body"`) {
		t.Errorf("got w.Code %d, w.Body %s; want w.Code %d, w.Body with %q", w.Code, w.Body, http.StatusRequestTimeout, `"incomplete_body"`)
	}
}

// TestShapes checks that answers have exactly the specified members.
func TestShapes(t *testing.T) {
	s := start(t, Options{PublicURL: "https://rendezvous.example/base/"})
	members := func(body string) string {
		var m map[string]any
		if err := json.Unmarshal([]byte(body), &m); err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, name := range []string{"environment_id", "url", "security_profile", "executor_registration_id", "executor_public_key", "harness_key_authorization", "valid", "accepts_description", "sends_grants"} {
			if v, ok := m[name]; ok {
				names = append(names, name)
				if text, ok := v.(string); ok && text == "" {
					t.Errorf("%s is empty", name)
				}
				delete(m, name)
			}
		}
		if len(m) > 0 {
			t.Errorf("more members: %v", m)
		}
		return strings.Join(names, " ")
	}
	const environment = "%C3%BCml%20%5Baut%5D"
	reg := s.register(environment)
	if got := members(reg.body); got != "environment_id url security_profile executor_registration_id accepts_description sends_grants" {
		t.Errorf("got %v, want %v", got, "environment_id url security_profile executor_registration_id accepts_description sends_grants")
	}
	if reg.EnvironmentID != "üml [aut]" || reg.SecurityProfile != "noise_hybrid_ik_v1" || !strings.HasPrefix(reg.URL, "wss://rendezvous.example/base/relay?") {
		t.Errorf(`got %s; want reg.EnvironmentID "üml [aut]", reg.SecurityProfile "noise_hybrid_ik_v1", reg.URL beginning with "wss://rendezvous.example/base/relay?"`, reg.body)
	}
	u, err := url.Parse(reg.URL)
	if err != nil || u.Query().Get("role") != "environment" {
		t.Errorf(`got u %v, error %v; want no error, u.Query().Get("role") "environment"`, u, err)
	}
	s.dial("ws" + strings.TrimPrefix(s.url, "http") + relayPath + "?" + u.RawQuery)
	con := s.connect(environment, identity())
	if got := members(con.body); got != "environment_id url security_profile executor_registration_id executor_public_key harness_key_authorization accepts_description sends_grants" {
		t.Errorf("got %v, want %v", got, "environment_id url security_profile executor_registration_id executor_public_key harness_key_authorization accepts_description sends_grants")
	}
	if con.EnvironmentID != reg.EnvironmentID || con.ExecutorRegistrationID != reg.ExecutorRegistrationID || con.ExecutorPublicKey != identity() || len(con.HarnessKeyAuthorization) > 4096 {
		t.Errorf("got %s; want con.EnvironmentID %v, con.ExecutorRegistrationID %v, con.ExecutorPublicKey identity(), len(con.HarnessKeyAuthorization) at most 4096", con.body, reg.EnvironmentID, reg.ExecutorRegistrationID)
	}
	if u, err := url.Parse(con.URL); err != nil || u.Query().Get("role") != "harness" {
		t.Errorf(`got u %v, error %v; want no error, u.Query().Get("role") "harness"`, u, err)
	}
	if got := members(s.validate(s.token, environment, &con, keyText(identity())).body); got != "valid" {
		t.Errorf(`got %v, want "valid"`, got)
	}
}

func (s *service) validate(token, environment string, con *answer, key string) answer {
	body, err := json.Marshal(map[string]any{
		"executor_registration_id": con.ExecutorRegistrationID, "harness_public_key": json.RawMessage(key), "harness_key_authorization": con.HarnessKeyAuthorization,
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.post(token, "/cloud/environment/"+environment+"/validate", string(body))
}

func TestValidate(t *testing.T) { everywhere(t, testValidate) }

func testValidate(t *testing.T, start starter) {
	s := start(t, Options{})
	s.executor("env")
	s.executor("env2")
	other := keyText(makeKey())
	key := keyText(identity())
	otherToken, _ := newToken(t, s.tokens, RoleBoth, "*")
	harnessToken, harness := newToken(t, s.tokens, RoleHarness, "env")
	for _, tt := range []struct {
		name string
		call func(con answer) answer
		want bool
	}{
		{"as it is", func(con answer) answer { return s.validate(s.token, "env", &con, key) }, true},
		{"twice", func(con answer) answer {
			s.validate(s.token, "env", &con, key)
			return s.validate(s.token, "env", &con, key)
		}, false},
		{"twice, at two nodes", func(con answer) answer {
			s.far.validate(s.token, "env", &con, key)
			return s.validate(s.token, "env", &con, key)
		}, false},
		{"another harness's", func(con answer) answer { return s.validate(s.token, "env", &con, other) }, false},
		{"another environment's", func(con answer) answer { return s.validate(s.token, "env2", &con, key) }, false},
		{"another executor asks", func(con answer) answer { return s.validate(otherToken, "env", &con, key) }, false},
		{"unknown registration", func(con answer) answer {
			con.ExecutorRegistrationID = "x"
			return s.validate(s.token, "env", &con, key)
		}, false},
		{"changed", func(con answer) answer {
			con.HarnessKeyAuthorization += "x"
			return s.validate(s.token, "env", &con, key)
		}, false},
		{"the harness's token was revoked", func(answer) answer {
			con := s.far.post(harnessToken, "/cloud/environment/env/connect", `{"harness_public_key":`+key+`}`)
			if _, err := s.tokens.Revoke(context.Background(), harness.ID); err != nil {
				t.Fatal(err)
			}
			return s.validate(s.token, "env", &con, key)
		}, false},
	} {
		if a := tt.call(s.connect("env", identity())); a.status != http.StatusOK || a.Valid != tt.want {
			t.Errorf("%s: got %s; want a.status %v, a.Valid %v", tt.name, a.body, http.StatusOK, tt.want)
		}
	}
}

// TestGrants: an executor that enforces grants gets the grant of the harness's token. For other
// executors, such as Codex CLI's, a harness is refused if its token does not permit everything.
func TestGrants(t *testing.T) { everywhere(t, testGrants) }

func testGrants(t *testing.T, start starter) {
	s := start(t, Options{})
	s.executor("env")
	for _, tt := range []struct {
		name  string
		spec  TokenSpec
		want  string // the grant, without the id
		plain bool   // an executor that enforces no grants admits it
	}{
		{"harness", TokenSpec{Role: RoleHarness, Name: "ada"}, `"name":"ada","role":"admin"`, true},
		{"both", TokenSpec{Role: RoleBoth}, `"role":"admin"`, true},
		{"admin", TokenSpec{Role: RoleAdmin}, `"role":"admin"`, true},
		{"read", TokenSpec{Role: RoleRead, Ceiling: Ceiling{Dir: "/d"}}, `"role":"read","dir":"/d"`, false},
		{"run", TokenSpec{Role: RoleRun}, `"role":"run"`, false},
		{"run in a directory", TokenSpec{Role: RoleRun, Ceiling: Ceiling{Dir: "/d", Limits: tokens.Limits{PIDs: 5}}},
			`"role":"run","dir":"/d","maxSandbox":"workspace-write","limits":{"pids":5}`, false},
	} {
		tt.spec.Environments = []string{"env"}
		secret, token, err := s.tokens.Create(t.Context(), tt.spec)
		if err != nil {
			t.Fatal(err)
		}
		key := keyText(identity())
		for _, accepts := range []bool{false, true} {
			con := s.far.post(secret, "/cloud/environment/env/connect", `{"harness_public_key":`+key+`}`)
			body := fmt.Sprintf(`{"executor_registration_id":%q,"harness_public_key":%s,"harness_key_authorization":%q,"accepts_grant":%v}`,
				con.ExecutorRegistrationID, key, con.HarnessKeyAuthorization, accepts)
			a := s.post(s.token, "/cloud/environment/env/validate", body)
			want := `{"valid":false}`
			switch {
			case accepts:
				want = `{"valid":true,"grant":{"token":"` + token.ID + `",` + tt.want + `}}`
			case tt.plain:
				want = `{"valid":true}`
			}
			if a.body != want {
				t.Errorf("%s, an executor that enforces grants: %v: got %s, want %s", tt.name, accepts, a.body, want)
			}
		}
		if _, _, err := s.tokens.Create(t.Context(), TokenSpec{Role: RoleExecutor, Environments: []string{"env"}, Ceiling: Ceiling{Dir: "/d"}}); err == nil {
			t.Errorf("a token of an executor has a ceiling")
		}
	}
}

// TestLongRegistrationID: an id becomes a part of a request to other nodes. In an earlier version,
// an id that was too long ended the connection to NATS.
func TestLongRegistrationID(t *testing.T) {
	everywhere(t, func(t *testing.T, start starter) {
		s := start(t, Options{})
		for _, n := range []int{maxRegistrationID + 1, 5000, 60_000} {
			a := s.post(s.token, "/cloud/environment/env/validate", `{"executor_registration_id":"`+strings.Repeat("r", n)+`","harness_public_key":`+keyText(identity())+`}`)
			if a.status != 200 || a.Valid {
				t.Errorf("an id of %d bytes: %s", n, a.body)
			}
		}
		s.register("env")
	})
}

func TestURLs(t *testing.T) {
	s := start(t, Options{})
	var late atomic.Int64 // how far the server's clock is ahead of ours
	s.Server.now = func() time.Time { return time.Now().Add(time.Duration(late.Load())) }
	good := s.register("env").URL
	for name, u := range map[string]string{
		"no query":  good[:strings.IndexByte(good, '?')],
		"role":      strings.Replace(good, "role=environment", "role=harness", 1),
		"signature": good + "x",
		"other":     strings.Replace(good, "environment_id=env", "environment_id=env2", 1),
	} {
		if got := refused(t, u); got != "401 invalid_url" {
			t.Errorf(`%s: got %s, want "401 invalid_url"`, name, got)
		}
	}
	s.dial(good)
	harness := s.connect("env", identity()).URL
	late.Store(int64(harnessURLTime))
	if got := refused(t, harness); got != "401 invalid_url" {
		t.Errorf("expired: %s", got)
	}
	if w := s.get(strings.TrimPrefix(good, "ws"+strings.TrimPrefix(s.url, "http"))); w.Code != http.StatusUpgradeRequired {
		t.Errorf("no websocket: %d", w.Code)
	}
}

func TestPublicURL(t *testing.T) {
	for text, want := range map[string]string{
		"":                       "",
		"http://h:1":             "ws://h:1",
		"https://h/p":            "wss://h/p",
		"wss://h":                "wss://h",
		"ftp://h":                "error",
		"h:1":                    "error",
		"https://":               "error",
		"https://h/?q":           "error",
		"https://u:password@h/":  "error",
		"https://h/#f":           "error",
		"https://h:port/invalid": "error",
	} {
		u, err := parsePublicURL(text)
		got := ""
		if err != nil {
			got = "error"
		} else if u != nil {
			got = u.String()
		}
		if got != want {
			t.Errorf("%q: got %s, error %v; want %s", text, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "password") {
			t.Errorf("the error shows the password: %v", err)
		}
	}
}

func TestEnvironmentLimit(t *testing.T) {
	r := newRegistry(nil)
	now := time.Now()
	r.now = func() time.Time { return now }
	add := func(environment, token string) error {
		reg := Registration{ID: rand.Text(), Environment: environment, Key: identity(), Token: token, Expires: now.Add(ExecutorURLTime)}
		return r.Register(context.Background(), reg)
	}
	for i := range TokenEnvironments {
		if err := add(string(rune('A'+i)), "one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := add("more", "one"); !errors.Is(err, ErrTooMany) {
		t.Errorf("one more: %v", err)
	}
	if err := add("A", "one"); err != nil {
		t.Errorf("again: %v", err)
	}
	if err := add("more", "two"); err != nil {
		t.Errorf("of another token: %v", err)
	}
	if err := add("more", "one"); !errors.Is(err, ErrTooMany) {
		t.Errorf("taken from another token: %v", err)
	}
	now = now.Add(ExecutorURLTime)
	if err := add("more still", "one"); err != nil || len(r.List()) != 1 {
		t.Errorf("after the others have expired: %v, %d are left", err, len(r.List()))
	}
}

// TestCallsEndTheirConnection: a kept connection may be dead at the time of the next call, and
// clients without a token must not keep connections open.
func TestCallsEndTheirConnection(t *testing.T) {
	s := start(t, Options{})
	for _, path := range []string{"/cloud/environment/env/connect", "/cloud/environment/env/validate"} {
		res, err := http.Post(s.url+path, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if !res.Close {
			t.Errorf("%s: got %v, want res.Close true", path, res.Header)
		}
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/status", "/relay", "/nothing"} {
		res, err := http.Get(s.url + path)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if !res.Close {
			t.Errorf("%s: got %v, want res.Close true", path, res.Header)
		}
	}
}

// TestSlowBodyAfterRefusal: a client without a token is refused, and sends no more of its body. The
// connection must end.
func TestSlowBodyAfterRefusal(t *testing.T) {
	s := start(t, Options{})
	c, err := net.Dial("tcp", strings.TrimPrefix(s.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, "POST /cloud/environment/env/connect HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"); err != nil {
		t.Fatal(err)
	}
	if err := c.SetReadDeadline(time.Now().Add(answerTime / 2)); err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(c) // until the connection ends
	if !strings.Contains(string(text), "401") || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf(`got text %s, error %v; want text with "401", error not %v`, text, err, os.ErrDeadlineExceeded)
	}
}

func TestStatus(t *testing.T) {
	s := start(t, Options{})
	if w := s.get("/"); w.Code != http.StatusFound || w.Header().Get("Location") != "/status" {
		t.Errorf("/ leads to %d %v", w.Code, w.Header())
	}
	s.executor("<b>one")
	s.register("two")
	limited, _ := newToken(t, s.tokens, RoleHarness, "two")
	if w := s.get("/status"); w.Code != 401 || w.Header().Get("WWW-Authenticate") == "" {
		t.Errorf("without a token: %d", w.Code)
	}
	w := s.get("/status", "Authorization", "Bearer "+s.token, "Accept", "application/json")
	var page struct{ Environments []environmentStatus }
	if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Environments) != 2 || !page.Environments[0].Connected || page.Environments[1].Connected {
		t.Errorf("got w.Body %s, error %v; want no error, len(page.Environments) 2, page.Environments[0].Connected true, page.Environments[1].Connected false", w.Body, err)
	}
	w = s.get("/status", "Authorization", "Bearer "+s.token)
	if text := w.Body.String(); !strings.Contains(text, "&lt;b&gt;one") || strings.Contains(text, "<b>") {
		t.Errorf(`got %s; want a text with "&lt;b&gt;one", a text without "<b>"`, text)
	}
	r, _ := http.NewRequest(http.MethodGet, "/", nil)
	r.SetBasicAuth("anybody", limited)
	w = s.get("/status", "Authorization", r.Header.Get("Authorization"), "Accept", "application/json")
	if text := w.Body.String(); w.Code != 200 || !strings.Contains(text, `"two"`) || strings.Contains(text, "one") {
		t.Errorf("what is not the token's: %s", text)
	}
}

// TestPrivateMetrics: with PrivateMetrics, clients of the service do not get the metrics, and the
// handler of the metrics serves nothing else.
func TestPrivateMetrics(t *testing.T) {
	s := start(t, Options{PrivateMetrics: true})
	if w := s.get("/metrics"); w.Code != http.StatusNotFound {
		t.Errorf("/metrics of the service: got status %d, want 404", w.Code)
	}
	for _, tt := range []struct {
		path, origin string
		want         int
	}{
		{"/metrics", "", http.StatusOK},
		{"/metrics", "http://x.test", http.StatusForbidden},
		{"/status", "", http.StatusNotFound},
		{"/relay", "", http.StatusNotFound},
		{"/cloud/environment/env/connect", "", http.StatusNotFound},
	} {
		r := httptest.NewRequest(http.MethodGet, tt.path, nil)
		if tt.origin != "" {
			r.Header.Set("Origin", tt.origin)
		}
		w := httptest.NewRecorder()
		s.Metrics().ServeHTTP(w, r)
		if w.Code != tt.want {
			t.Errorf("%s of the metrics' handler, origin %q: got status %d, want %d", tt.path, tt.origin, w.Code, tt.want)
		}
		if has := strings.Contains(w.Body.String(), "rendezvous_environments 0\n"); has != (tt.want == http.StatusOK) {
			t.Errorf("%s of the metrics' handler: got metrics %v", tt.path, has)
		}
	}
}

func TestHealthAndMetrics(t *testing.T) {
	s := start(t, Options{})
	s.executor("env")
	h := s.harness("env")
	h.send(handshake("s", "x"))
	eventually(t, func() bool { return s.totals().streams == 1 })
	for _, path := range []string{"/healthz", "/readyz"} {
		if w := s.get(path); w.Code != 200 {
			t.Errorf("%s: got w.Code %d, w.Body %s; want w.Code 200", path, w.Code, w.Body)
		}
	}
	_, end, err := s.tokens.Create(t.Context(), TokenSpec{Role: RoleExecutor, Environments: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	text := s.get("/metrics").Body.String()
	for _, line := range []string{
		`rendezvous_clients{role="executor",build="Go-http-client/1.1"} 1`, `rendezvous_clients{role="harness",build="Go-http-client/1.1"} 1`,
		fmt.Sprintf(`rendezvous_token_expiry_timestamp_seconds{role="executor"} %d`, end.Expires.Unix()),
		"rendezvous_environments 1", `rendezvous_sockets{role="executor"} 1`, `rendezvous_sockets{role="harness"} 1`, "rendezvous_streams 1",
		`rendezvous_requests_total{call="register",status="200"} 1`, `rendezvous_requests_total{call="relay",status="101"} 2`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("%s is missing in\n%s", line, text)
		}
	}
	if strings.Contains(text, `"env"`) {
		t.Error("the metrics name an environment")
	}
	if err := os.WriteFile(s.tokens.Path(), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if w := s.get("/readyz"); w.Code != 503 {
		t.Errorf("without tokens: %d", w.Code)
	}
	if a := s.post(s.token, "/cloud/environment/env/validate", "{}"); a.Error.Code != "tokens_unavailable" || a.status != 503 {
		t.Errorf(`got %s; want a.Error.Code "tokens_unavailable", a.status 503`, a.body)
	}
}

// FuzzCalls sends arbitrary bodies to every call. Each must get an answer that the protocol
// defines.
func FuzzCalls(f *testing.F) {
	tokens := OpenTokens(filepath.Join(f.TempDir(), "tokens.json"))
	token, _ := newToken(f, tokens, RoleBoth, "*")
	s, err := New(context.Background(), Options{Tokens: tokens})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = s.Shutdown(context.Background()) })
	s.tokens.quota.calls, s.tokens.quota.callBurst = 1<<30, 1<<30
	key := keyText(identity())
	f.Add("register", "env", `{"security_profile":"noise_hybrid_ik_v1","executor_public_key":`+key+`}`)
	f.Add("connect", "env", `{"harness_public_key":`+key+`}`)
	f.Add("validate", "env", `{"executor_registration_id":"r","harness_public_key":`+key+`,"harness_key_authorization":"a.b.c.d"}`)
	f.Fuzz(func(t *testing.T, call, environment, body string) {
		r := httptest.NewRequest(http.MethodPost, "/cloud/environment/"+url.PathEscape(environment)+"/"+url.PathEscape(call), strings.NewReader(body))
		r.Header.Set("Authorization", "Bearer "+token)
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code == http.StatusTemporaryRedirect || w.Code == http.StatusMovedPermanently {
			return // of a path with dots
		}
		a := answer{status: w.Code, body: w.Body.String()}
		if err := json.Unmarshal(w.Body.Bytes(), &a); err != nil {
			t.Fatalf("%s: got error %v, want no error", a.body, err)
		}
		switch {
		case a.status == 200 && call == "validate":
			if a.Valid {
				t.Fatal("valid without an authorization")
			}
		case a.status == 200:
			if call != "register" || a.EnvironmentID != strings.TrimSpace(environment) || !strings.Contains(body, "noise_hybrid_ik_v1") {
				t.Fatalf(`got call %s, environment %q, a.body %s; want call "register", a.EnvironmentID %v, body with "noise_hybrid_ik_v1"`, call, environment, a.body, strings.TrimSpace(environment))
			}
		case a.Error.Code == "" || a.status < 400 || a.status == 401 || a.status == 500:
			t.Fatalf(`%s %q: got a.status %d, a.body %s; want a.Error.Code other than "", a.status at least 400, a.status other than 401, a.status other than 500`, call, environment, a.status, a.body)
		}
	})
}
