package signin

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

const (
	tokenPost  = "POST https://auth.openai.com/oauth/token"
	revokePost = "POST https://auth.openai.com/oauth/revoke"
	codePost   = "POST https://auth.openai.com/api/accounts/deviceauth/usercode"
	pollPost   = "POST https://auth.openai.com/api/accounts/deviceauth/token"
)

// RFC 7636, appendix B.
func TestChallenge(t *testing.T) {
	if got := challenge("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"); got != "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM" {
		t.Errorf(`got %v, want "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM"`, got)
	}
	if v := randomText(verifierBytes).Reveal(); len(v) != 86 || v == randomText(verifierBytes).Reveal() {
		t.Errorf("a verifier of %d characters", len(v))
	}
}

// login returns a Login at the test's service, with its own store.
func (s *identityService) login(env environment, store Store) *Login {
	return &Login{Authority: s.authority(env), Store: store}
}

// tokenAnswer returns the answer to a code, for an account.
func tokenAnswer(t *testing.T, account string) string {
	t.Helper()
	id := idToken(`{"https://api.openai.com/auth":{"chatgpt_account_id":"` + account + `"}}`)
	text, err := json.Marshal(map[string]string{"id_token": id, "access_token": "access", "refresh_token": "rt-1"})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// visitor is a browser that records the pages that it visited.
type visitor struct {
	t    *testing.T
	seen []string // status and body
}

func (v *visitor) get(url string) string {
	v.t.Helper()
	resp, err := http.Get(url)
	if err != nil {
		v.t.Error(err)
		return ""
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		v.t.Error(err)
	}
	if !resp.Close {
		v.t.Errorf("%s: the connection stays open", url)
	}
	v.seen = append(v.seen, resp.Status+" "+string(body))
	return resp.Header.Get("Content-Type")
}

// browse signs in with a browser that visit controls.
func browse(ctx context.Context, t *testing.T, l *Login, visit func(v *visitor, back string, query url.Values)) (v *visitor, notices string, err error) {
	t.Helper()
	v = &visitor{t: t}
	err = l.Browser(ctx, BrowserOptions{
		Ports: []int{0},
		Show:  func(string, string) {},
		Open: func(authorize string) error {
			u, err := url.Parse(authorize)
			if err != nil {
				return err
			}
			visit(v, u.Query().Get("redirect_uri"), u.Query())
			return errors.New("no desktop")
		},
		Notice: func(text string) { notices += text + "\n" },
		Warn:   func(err error) { t.Log(err) },
	})
	return v, notices, err
}

func TestBrowser(t *testing.T) {
	s := newIdentityService(t)
	s.on(revokePost, 200, "")
	s.mux[tokenPost] = func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(s.questions()[len(s.questions())-1].body, "token-exchange") {
			_, _ = io.WriteString(w, `{"access_token":"sk-new"}`)
			return
		}
		_, _ = io.WriteString(w, tokenAnswer(t, "acct-1"))
	}
	store := stored(t, NewChatGPT(tokens(t, "old"), "", noon))
	l := s.login(nil, store)
	l.Workspaces = []string{"acct-1", "acct-2"}
	var query url.Values
	v, notices, err := browse(t.Context(), t, l, func(v *visitor, back string, q url.Values) {
		query = q
		if _, err := os.Stat(store.path); err == nil {
			t.Error("whoever was signed in still is")
		}
		v.get(strings.TrimSuffix(back, "/auth/callback") + "/favicon.ico")
		v.get(strings.TrimSuffix(back, "/auth/callback") + "/success")
		v.get(back + "?code=c&state=wrong")
		v.get(back + "?code=a%2Fb&state=" + url.QueryEscape(q.Get("state")))
	})
	if err != nil || notices != "" {
		t.Fatalf("got %v; %s", err, notices)
	}
	if len(v.seen) != 4 || v.seen[0] != "404 Not Found Not Found" || v.seen[1] != v.seen[0] || v.seen[2] != "400 Bad Request State mismatch" ||
		!strings.HasPrefix(v.seen[3], "200 OK <!DOCTYPE html>") || !strings.Contains(v.seen[3], "Signed in to Codex") {
		t.Errorf("the browser saw %q", v.seen)
	}
	for name, want := range map[string]string{
		"response_type": "code", "client_id": defaultClientID, "scope": loginScope, "code_challenge_method": "S256",
		"id_token_add_organizations": "true", "codex_cli_simplified_flow": "true", "originator": "codex_cli_rs", "allowed_workspace_id": "acct-1,acct-2",
	} {
		if got := query.Get(name); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	asked := s.questions()
	if len(asked) != 3 || asked[0].body != `{"token":"rt-1","token_type_hint":"refresh_token","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}` {
		t.Fatalf("asked: %+v", asked)
	}
	form, err := url.ParseQuery(asked[1].body)
	if err != nil || challenge(Secret(form.Get("code_verifier"))) != query.Get("code_challenge") || form.Get("redirect_uri") != query.Get("redirect_uri") {
		t.Errorf("the code was exchanged with %s", asked[1].body)
	}
	if !regexp.MustCompile(`^grant_type=authorization_code&code=a%2Fb&redirect_uri=http%3A%2F%2Flocalhost%3A\d+%2Fauth%2Fcallback&client_id=app_EMoamEEZ73f0CkXaXp7hrann&code_verifier=[\w-]{86}$`).MatchString(asked[1].body) {
		t.Errorf("the code was exchanged with %s", asked[1].body)
	}
	if !strings.HasPrefix(asked[2].body, "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Atoken-exchange&client_id=app_EMoamEEZ73f0CkXaXp7hrann&requested_token=openai-api-key&subject_token=") ||
		!strings.HasSuffix(asked[2].body, "&subject_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3Aid_token") {
		t.Errorf("the key was asked for with %s", asked[2].body)
	}
	if h := asked[1].header; h.Get("Originator") != "" || h.Get("User-Agent") != "" || h.Get("Content-Type") != "application/x-www-form-urlencoded" {
		t.Errorf("headers: %v", h)
	}
	a, err := store.Load()
	if err != nil || a.Mode != ModeChatGPT || a.APIKey != "sk-new" || a.Tokens.AccountID != "acct-1" || a.Tokens.RefreshToken != "rt-1" {
		t.Errorf("stored: %v, %v", a, err)
	}
}

func TestAuthorizeURL(t *testing.T) {
	c := newCallback(t.Context(), newIdentityService(t).login(nil, &memoryStore{}), "http://localhost:1455")
	c.state, c.grant.verifier = "the-state", "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk"
	const want = "https://auth.openai.com/oauth/authorize?response_type=code&client_id=app_EMoamEEZ73f0CkXaXp7hrann" +
		"&redirect_uri=http%3A%2F%2Flocalhost%3A1455%2Fauth%2Fcallback" +
		"&scope=openid%20profile%20email%20offline_access%20api.connectors.read%20api.connectors.invoke" +
		"&code_challenge=E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM&code_challenge_method=S256" +
		"&id_token_add_organizations=true&codex_cli_simplified_flow=true&state=the-state&originator=codex_cli_rs"
	if got := c.authorizeURL(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

func TestBrowserFailures(t *testing.T) {
	for name, tt := range map[string]struct {
		query  string // but the state
		status int    // of the exchange
		body   string
		want   string
		notice string // empty: none
		page   string
	}{
		"refused":           {"error=server_error&error_description=try+%3Cb%3E+later%1b", 0, "", "Sign-in failed: try <b> later\uFFFD", "OAuth callback error: ", "try &lt;b&gt; later"},
		"without a reason":  {"error=access_denied", 0, "", "Sign-in failed: access_denied", "OAuth callback error: ", "access_denied"},
		"not entitled":      {"error=access_denied&error_description=missing_codex_entitlement", 0, "", noEntitlement, "OAuth callback error: ", "Contact your workspace administrator"},
		"no code":           {"code=", 0, "", missingCode, "", missingCode},
		"a worthless code":  {"code=c", 400, `{"error":"invalid_grant","error_description":"used up"}`, "Token exchange failed: token endpoint returned status 400 Bad Request: used up", "Token exchange error: ", "used up"},
		"a failure":         {"code=c", 500, `{"error":{"message":"oops"}}`, "Token exchange failed: token endpoint returned status 500 Internal Server Error: oops", "Token exchange error: ", "oops"},
		"no tokens":         {"code=c", 200, `{"access_token":"a"}`, "Token exchange failed: the answer is not the JSON of id_token, access_token and refresh_token", "Token exchange error: ", "exchange failed"},
		"a bad id_token":    {"code=c", 200, `{"id_token":"x","access_token":"a","refresh_token":"r"}`, "Token exchange failed: id_token: invalid ID token format", "Token exchange error: ", "exchange failed"},
		"another workspace": {"code=c", 200, tokenAnswer(t, "acct-3"), "Login is restricted to workspace id(s) acct-1, acct-2.", "Workspace restriction error: ", "acct-1, acct-2"},
		"no workspace":      {"code=c", 200, tokenAnswer(t, ""), "Login is restricted to a specific workspace, but the token did not include an chatgpt_account_id claim.", "Workspace restriction error: ", "restricted"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			s.on(tokenPost, tt.status, tt.body)
			store := stored(t, nil)
			l := s.login(nil, store)
			l.Workspaces = []string{"acct-1", "acct-2"}
			v, notices, err := browse(t.Context(), t, l, func(v *visitor, back string, q url.Values) {
				v.get(back + "?" + tt.query + "&state=" + url.QueryEscape(q.Get("state")))
			})
			notice := ""
			if tt.notice != "" {
				notice = tt.notice + strings.TrimPrefix(tt.want, "Token exchange failed: ") + "\n"
			}
			if text(err) != tt.want || notices != notice {
				t.Errorf("got %v; %s", err, notices)
			}
			if want := min(tt.status, 1); len(s.questions()) != want {
				t.Errorf("%d questions, not %d: a key is for who may sign in", len(s.questions()), want)
			}
			if len(v.seen) != 1 || !strings.HasPrefix(v.seen[0], "200 OK <!DOCTYPE html>") || !strings.Contains(v.seen[0], tt.page) {
				t.Errorf("the browser saw %q", v.seen)
			}
			if _, err := store.Load(); !errors.Is(err, ErrNoAuth) {
				t.Errorf("stored: %v", err)
			}
		})
	}
}

func TestBrowserCancelled(t *testing.T) {
	l := newIdentityService(t).login(nil, &memoryStore{})
	v, notices, err := browse(t.Context(), t, l, func(v *visitor, back string, _ url.Values) {
		v.get(strings.TrimSuffix(back, "/auth/callback") + "/cancel")
	})
	if text(err) != "Login cancelled" || notices != "" || !reflect.DeepEqual(v.seen, []string{"200 OK Login cancelled"}) {
		t.Errorf("got %v; %s; %q", err, notices, v.seen)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, _, err := browse(ctx, t, l, func(*visitor, string, url.Values) { cancel() }); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that ends: %v", err)
	}
}

// An attempt that is cancelled while the code is exchanged stores no credentials.
func TestBrowserCancelledLate(t *testing.T) {
	s := newIdentityService(t)
	store := stored(t, nil)
	var server string
	s.mux[tokenPost] = func(w http.ResponseWriter, r *http.Request) {
		(&visitor{t: t}).get(server + "/cancel")
		<-r.Context().Done() // the attempt is over
	}
	v, _, err := browse(t.Context(), t, s.login(nil, store), func(v *visitor, back string, q url.Values) {
		server = strings.TrimSuffix(back, "/auth/callback")
		v.get(back + "?code=c&state=" + url.QueryEscape(q.Get("state")))
	})
	if text(err) != "Login cancelled" || len(v.seen) != 1 || strings.Contains(v.seen[0], "Signed in") {
		t.Errorf("got %v; the browser saw %q", err, v.seen)
	}
	if _, err := store.Load(); !errors.Is(err, ErrNoAuth) {
		t.Errorf("stored: %v", err)
	}
}

// savingStore calls saving while it saves.
type savingStore struct {
	memoryStore
	saving func()
}

func (s *savingStore) Save(a *Auth) error {
	s.saving()
	return s.memoryStore.Save(a)
}

// An attempt that is cancelled while credentials are stored has one of two results: it is
// cancelled, or it stores the credentials.
func TestBrowserCancelledAtTheLastMoment(t *testing.T) {
	s := newIdentityService(t)
	s.on(tokenPost, 200, tokenAnswer(t, "acct-1"))
	var server string
	var cancelling sync.WaitGroup
	store := &savingStore{saving: func() {
		asked := make(chan struct{})
		cancelling.Go(func() {
			(&visitor{t: t}).get(server + "/cancel")
			close(asked)
		})
		select {
		case <-asked:
		case <-time.After(lastAnswer / 4): // it waits for the end of this attempt
		}
	}}
	_, _, err := browse(t.Context(), t, s.login(nil, store), func(v *visitor, back string, q url.Values) {
		server = strings.TrimSuffix(back, "/auth/callback")
		v.get(back + "?code=c&state=" + url.QueryEscape(q.Get("state")))
	})
	cancelling.Wait()
	if _, stored := store.Load(); (err == nil) != (stored == nil) {
		t.Errorf("got %v; stored: %v", err, stored)
	}
}

// A second attempt to sign in gets the port of the first.
func TestPorts(t *testing.T) {
	l := newIdentityService(t).login(nil, &memoryStore{})
	_, _, err := browse(t.Context(), t, l, func(_ *visitor, back string, _ url.Values) {
		u, err := url.Parse(back)
		if err != nil {
			t.Fatal(err)
		}
		port, err := net.LookupPort("tcp", u.Port())
		if err != nil {
			t.Fatal(err)
		}
		// The first attempt is cancelled, but its port becomes free only after this function has
		// returned.
		if _, err := listenLocal(t.Context(), []int{port}, 0); text(err) != "Port 127.0.0.1:"+u.Port()+" is already in use" {
			t.Errorf("a taken port: %v", err)
		}
		second, err := listenLocal(t.Context(), []int{port, 0}, 0)
		if err != nil {
			t.Fatal(err)
		}
		if err := second.Close(); err != nil {
			t.Error(err)
		}
	})
	if text(err) != "Login cancelled" {
		t.Errorf("the first attempt: %v", err)
	}
}

// device signs in with a code, at a service without a network.
func device(t *testing.T, s *identityService, store Store) (shown string, err error) {
	s.direct = true
	err = s.login(nil, store).Device(t.Context(), DeviceOptions{
		Show: func(url, code string) { shown = url + " " + code },
		Warn: func(err error) { t.Log(err) },
	})
	return shown, err
}

func TestDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, store := newIdentityService(t), &memoryStore{auth: NewChatGPT(tokens(t, "old"), "", noon)}
		s.server.Close()
		s.on(revokePost, 200, "")
		s.mux[codePost] = func(w http.ResponseWriter, _ *http.Request) {
			if _, err := store.Load(); !errors.Is(err, ErrNoAuth) {
				t.Error("whoever was signed in still is")
			}
			_, _ = io.WriteString(w, `{"device_auth_id":"d","usercode":"ABCD-1234","interval":"5"}`)
		}
		s.on(tokenPost, 200, tokenAnswer(t, "acct-1"))
		polls := 0
		s.mux[pollPost] = func(w http.ResponseWriter, _ *http.Request) {
			polls++
			if status := []int{0, 403, 404, 200}[polls]; status != 200 {
				w.WriteHeader(status)
				return
			}
			_, _ = io.WriteString(w, `{"authorization_code":"c","code_challenge":"x","code_verifier":"v"}`)
		}
		start := time.Now()
		shown, err := device(t, s, store)
		if err != nil || shown != "https://auth.openai.com/codex/device ABCD-1234" || time.Since(start) != 10*time.Second {
			t.Fatalf("got %v; shown %q; after %v", err, shown, time.Since(start))
		}
		var bodies []string
		for _, q := range s.questions() {
			bodies = append(bodies, q.body)
			if named := strings.HasSuffix(q.url, "/revoke"); (q.header.Get("Originator") != "") != named || (q.header.Get("User-Agent") != "") != named {
				t.Errorf("%s: headers: %v", q.url, q.header)
			}
		}
		poll := `{"device_auth_id":"d","user_code":"ABCD-1234"}`
		want := []string{`{"token":"rt-1","token_type_hint":"refresh_token","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}`,
			`{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}`, poll, poll, poll,
			"grant_type=authorization_code&code=c&redirect_uri=https%3A%2F%2Fauth.openai.com%2Fdeviceauth%2Fcallback&client_id=app_EMoamEEZ73f0CkXaXp7hrann&code_verifier=v"}
		if !reflect.DeepEqual(bodies, want) {
			t.Errorf("got  %q\nwant %q", bodies, want)
		}
		if a, err := store.Load(); err != nil || a.APIKey != "" || a.Tokens.AccountID != "acct-1" || a.Mode != ModeChatGPT {
			t.Errorf("stored: %v, %v", a, err)
		}
	})
}

func TestDeviceFailures(t *testing.T) {
	const code = `{"device_auth_id":"d","user_code":"A","interval":"60"}`
	for name, tt := range map[string]struct {
		codeStatus int
		code       string
		pollStatus int
		poll       string
		want       string
	}{
		"not enabled":     {404, "", 0, "", "device code login is not enabled for this Codex server. Use the browser login or verify the server URL."},
		"no code":         {503, "", 0, "", "device code request failed with status 503 Service Unavailable"},
		"no JSON":         {200, "x", 0, "", "device code request failed: invalid JSON at byte 1"},
		"a number":        {200, `{"interval":5}`, 0, "", "device code request failed: answer.interval has the wrong type"},
		"no interval":     {200, `{"device_auth_id":"d","user_code":"A"}`, 0, "", "device code request failed: the answer lacks an id, a code or an interval in seconds"},
		"refused":         {200, code, 400, "", "device auth failed with status 400 Bad Request"},
		"never":           {200, code, 403, "", "device auth timed out after 15 minutes"},
		"an empty answer": {200, code, 200, "{}", "device auth failed: the answer lacks a code or its verifier"},
		"another answer":  {200, code, 200, "[]", "device auth failed: answer has the wrong type"},
		"a used code":     {200, code, 200, `{"authorization_code":"c","code_verifier":"v"}`, "device code exchange failed: token endpoint returned status 400 Bad Request: used up"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, store := newIdentityService(t), &memoryStore{}
				s.server.Close()
				s.on(codePost, tt.codeStatus, tt.code)
				s.on(pollPost, tt.pollStatus, tt.poll)
				s.on(tokenPost, 400, `{"error":"invalid_grant","error_description":"used up"}`)
				if _, err := device(t, s, store); text(err) != tt.want {
					t.Errorf("got %v", err)
				}
				if _, err := store.Load(); !errors.Is(err, ErrNoAuth) {
					t.Errorf("stored: %v", err)
				}
			})
		})
	}
}

func TestLogout(t *testing.T) {
	none := tokens(t, "access")
	none.RefreshToken = ""
	lent, err := ParseAuth([]byte(`{"auth_mode":"chatgptAuthTokens","tokens":{"id_token":"` + idToken("{}") + `","access_token":"a","refresh_token":"r"}}`))
	if err != nil {
		t.Fatal(err)
	}
	neither := none
	neither.AccessToken = ""
	const byRefresh = `{"token":"rt-1","token_type_hint":"refresh_token","client_id":"app_EMoamEEZ73f0CkXaXp7hrann"}`
	for name, tt := range map[string]struct {
		auth   *Auth
		env    environment
		url    string
		status int
		want   string // the body
	}{
		"by the refresh token":  {NewChatGPT(tokens(t, "access"), "", noon), nil, "https://auth.openai.com/oauth/revoke", 200, byRefresh},
		"by the access token":   {NewChatGPT(none, "", noon), nil, "https://auth.openai.com/oauth/revoke", 200, `{"token":"access","token_type_hint":"access_token"}`},
		"beside the refresh":    {NewChatGPT(tokens(t, "a"), "", noon), environment{"CODEX_REFRESH_TOKEN_URL_OVERRIDE": "http://x.test/y?z"}, "http://x.test/oauth/revoke", 200, byRefresh},
		"somewhere else":        {NewChatGPT(tokens(t, "a"), "", noon), environment{"CODEX_REVOKE_TOKEN_URL_OVERRIDE": "http://x.test/r?q"}, "http://x.test/r?q", 200, byRefresh},
		"where that fails":      {NewChatGPT(tokens(t, "a"), "", noon), nil, "https://auth.openai.com/oauth/revoke", 500, byRefresh},
		"with nothing to tell":  {NewChatGPT(neither, "", noon), nil, "", 0, ""},
		"of an API key":         {NewAPIKey("k"), nil, "", 0, ""},
		"of lent tokens":        {lent, nil, "", 0, ""},
		"with nothing to leave": {nil, nil, "", 0, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			if tt.url != "" {
				where, _, _ := strings.Cut(tt.url, "?")
				s.on("POST "+where, tt.status, "")
			}
			store := stored(t, tt.auth)
			warned := 0
			there, err := s.login(tt.env, store).Logout(t.Context(), func(error) { warned++ })
			if err != nil || there != (tt.auth != nil) || (warned == 1) != (tt.status == 500) {
				t.Errorf("got %v, %v; %d warnings", there, err, warned)
			}
			asked := s.questions()
			if tt.want == "" && len(asked) > 0 || tt.want != "" && (len(asked) != 1 || asked[0].body != tt.want || asked[0].url != tt.url) {
				t.Errorf("asked: %+v", asked)
			}
			if _, err := store.Load(); !errors.Is(err, ErrNoAuth) {
				t.Errorf("left: %v", err)
			}
		})
	}
	// A file that cannot be read is removed too.
	store := stored(t, nil)
	if err := os.WriteFile(store.path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if there, err := newIdentityService(t).login(nil, store).Logout(t.Context(), func(error) {}); !there || err != nil {
		t.Errorf("a broken file: %v, %v", there, err)
	}
}

// FuzzDeviceCode makes the parser read arbitrary answers from the network.
func FuzzDeviceCode(f *testing.F) {
	f.Add([]byte(`{"device_auth_id":"d","user_code":"A","interval":"5"}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		code, err := parseDeviceCode(body)
		if err == nil && (code.id == "" || code.user == "" || code.interval < minInterval || code.interval > 24*time.Hour) {
			t.Errorf(`got %+v; want code.id other than "", code.user other than "", code.interval at least %v, code.interval at most %v`, code, minInterval, 24*time.Hour)
		}
	})
}
