package signin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

const refreshPost = "POST https://auth.openai.com/oauth/token"

func TestRefreshDue(t *testing.T) {
	noon := noon.Truncate(time.Second) // exp has whole seconds
	for name, tt := range map[string]struct {
		access Secret
		last   time.Time
		want   bool
	}{
		"ends in five minutes":            {ending(noon.Add(5 * time.Minute)), noon, true},
		"ends a second later":             {ending(noon.Add(5*time.Minute + time.Second)), noon.Add(-99 * 24 * time.Hour), false},
		"has ended":                       {ending(noon.Add(-time.Hour)), noon, true},
		"opaque and eight days old":       {"opaque", noon.Add(-8 * 24 * time.Hour), false},
		"opaque and older than that":      {"opaque", noon.Add(-8*24*time.Hour - 1), true},
		"opaque and of an unknown age":    {"opaque", time.Time{}, false},
		"without exp and older than that": {Secret(idToken(`{}`)), noon.Add(-9 * 24 * time.Hour), true},
	} {
		a := NewChatGPT(tokens(t, tt.access), "", tt.last)
		a.LastRefresh = tt.last
		if got := refreshDue(a, noon); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
	}
	none := tokens(t, ending(noon))
	none.RefreshToken = ""
	if refreshDue(NewChatGPT(none, "", noon), noon) {
		t.Error("there is nothing to refresh with")
	}
	lent := NewChatGPT(tokens(t, ending(noon)), "", noon)
	lent.Mode = ModeChatGPTAuthTokens
	if refreshDue(lent, noon) {
		t.Error("the tokens are another program's")
	}
}

// resolved is the credential that is stored.
func resolved(t *testing.T, s *identityService, env environment, store Store, log io.Writer) Credential {
	t.Helper()
	c, err := s.resolver(env, store, log).Registration(t.Context(), "https://registry.test")
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestRefresh(t *testing.T) {
	s := newIdentityService(t)
	store := stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon))
	fresh := ending(noon.Add(time.Hour))
	s.on(refreshPost, 200, `{"access_token":"`+fresh.Reveal()+`","refresh_token":"rt-2"}`)
	c := resolved(t, s, nil, store, io.Discard)
	for range 2 { // the second time no refresh is needed
		h := headers(t, c)
		if h.Get("Authorization") != "Bearer "+fresh.Reveal() || h.Get("Chatgpt-Account-Id") != "acct-1" || h.Get("X-Openai-Fedramp") != "true" || len(h) != 3 {
			t.Errorf("headers: %v", h)
		}
	}
	asked := s.questions()
	if len(asked) != 1 {
		t.Fatalf("%d questions", len(asked))
	}
	q := asked[0]
	if want := `{"client_id":"app_EMoamEEZ73f0CkXaXp7hrann","grant_type":"refresh_token","refresh_token":"rt-1"}`; q.body != want {
		t.Errorf("got  %s\nwant %s", q.body, want)
	}
	if q.header.Get("Originator") != "codex_cli_rs" || !strings.HasPrefix(q.header.Get("User-Agent"), "codex_cli_rs/1.2.3 (") || q.header.Get("Content-Type") != "application/json" {
		t.Errorf("headers: %v", q.header)
	}
	a, err := store.Load()
	if err != nil || a.Tokens.RefreshToken != "rt-2" || a.Tokens.AccessToken != fresh || a.Tokens.IDToken != tokens(t, "").IDToken || !a.LastRefresh.Equal(noon) {
		t.Errorf("stored: %v, %v", a, err)
	}
}

func TestRefreshOverrides(t *testing.T) {
	s := newIdentityService(t)
	store := stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon))
	s.on("POST http://127.0.0.1:9/refresh", 200, `{}`)
	env := environment{"CODEX_REFRESH_TOKEN_URL_OVERRIDE": "http://127.0.0.1:9/refresh?x", "CODEX_APP_SERVER_LOGIN_CLIENT_ID": "me", "CODEX_INTERNAL_ORIGINATOR_OVERRIDE": "tests"}
	headers(t, resolved(t, s, env, store, io.Discard))
	asked := s.questions()
	if len(asked) != 1 || asked[0].url != "http://127.0.0.1:9/refresh?x" || !strings.Contains(asked[0].body, `"client_id":"me"`) ||
		asked[0].header.Get("Originator") != "tests" || !strings.HasPrefix(asked[0].header.Get("User-Agent"), "tests/1.2.3 ") {
		t.Errorf("asked: %+v", asked)
	}
}

// The stale token is used whatever happens. Only temporary failures are retried.
func TestRefreshFailures(t *testing.T) {
	const prefix = "Your access token could not be refreshed"
	for name, tt := range map[string]struct {
		status    int
		body      string
		want      string
		permanent bool
	}{
		"expired":             {400, `{"error":{"code":"refresh_token_expired"}}`, prefix + " because your refresh token has expired. Please log out and sign in again.", true},
		"reused":              {401, `{"error":"Refresh_Token_Reused"}`, prefix + " because your refresh token was already used. Please log out and sign in again.", true},
		"revoked":             {403, `{"code":"refresh_token_invalidated"}`, prefix + " because your refresh token was revoked. Please log out and sign in again.", true},
		"any other 401":       {401, `nobody`, prefix + ". Please log out and sign in again.", true},
		"a failure":           {500, `{"error":{"message":"oops"}}`, "Failed to refresh token: 500 Internal Server Error: oops", false},
		"a failure in text":   {503, `busy`, "Failed to refresh token: 503 Service Unavailable: busy", false},
		"a silent failure":    {500, ``, "Failed to refresh token: 500 Internal Server Error: unknown error", false},
		"what terminals obey": {500, "{\"error\":{\"message\":\"\\u001b[2J\"}}", "Failed to refresh token: 500 Internal Server Error: \uFFFD[2J", false},
		"the same in text":    {502, "\x1b[2J\xff", "Failed to refresh token: 502 Bad Gateway: \uFFFD[2J\uFFFD", false},
		"a redirect":          {307, ``, "Failed to refresh token: 307 Temporary Redirect: unknown error", false},
		"no JSON":             {200, `<html>`, "Failed to refresh token: the answer is not the JSON of tokens", false},
		"an id_token of sort": {200, `{"id_token":"x"}`, "Failed to refresh token: id_token: invalid ID token format", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			stale := ending(noon)
			store := stored(t, NewChatGPT(tokens(t, stale), "", noon))
			s.on(refreshPost, tt.status, tt.body)
			var log strings.Builder
			c := resolved(t, s, nil, store, &log)
			for range 2 {
				if got := headers(t, c).Get("Authorization"); got != "Bearer "+stale.Reveal() {
					t.Errorf("authorization: %s", got)
				}
			}
			if got := strings.Count(log.String(), tt.want); got != 2 || strings.Contains(log.String(), "rt-1") {
				t.Errorf("logged: %s", log.String())
			}
			want := 2
			if tt.permanent {
				want = 1
			}
			if got := len(s.questions()); got != want {
				t.Errorf("%d questions, want %d", got, want)
			}
			if a, err := store.Load(); err != nil || *a.Tokens != tokens(t, stale) {
				t.Errorf("stored: %v, %v", a, err)
			}
		})
	}
}

func TestSomebodyElseWasHere(t *testing.T) {
	stale, fresh := ending(noon), ending(noon.Add(time.Hour))
	other := tokens(t, fresh)
	other.AccountID = "acct-2"
	for name, tt := range map[string]struct {
		now    *Auth // the stored auth at that time; nil: none
		want   Secret
		logged string
	}{
		"and refreshed":       {NewChatGPT(tokens(t, fresh), "", noon), fresh, ""},
		"as another account":  {NewChatGPT(other, "", noon), stale, accountChanged},
		"with another method": {NewAPIKey("k"), stale, accountChanged},
		"and signed out":      {nil, stale, accountChanged},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t) // which is not asked
			store := stored(t, NewChatGPT(tokens(t, stale), "", noon))
			var log strings.Builder
			c := resolved(t, s, nil, store, &log)
			if _, err := store.Delete(); err != nil {
				t.Fatal(err)
			}
			if tt.now != nil {
				if err := store.Save(tt.now); err != nil {
					t.Fatal(err)
				}
			}
			if got := headers(t, c).Get("Authorization"); got != "Bearer "+tt.want.Reveal() {
				t.Errorf("authorization: %s", got)
			}
			if !strings.Contains(log.String(), tt.logged) || tt.logged == "" && log.Len() > 0 {
				t.Errorf("logged: %s", log.String())
			}
		})
	}
}

func TestRefreshEndsWithItsContext(t *testing.T) {
	s := newIdentityService(t)
	c := resolved(t, s, nil, stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon)), io.Discard)
	if err := c.Authorize(ended(t), map[string][]string{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// The result of a refresh is stored even if its caller no longer waits, unless
// it takes too long.
func TestRefreshOutlastsItsContext(t *testing.T) {
	fresh := ending(noon.Add(time.Hour))
	for name, tt := range map[string]struct {
		answers bool
		want    Secret // the refresh token that is stored
	}{
		"with an answer": {true, "rt-2"},
		"without":        {false, "rt-1"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			s.direct = true
			store := stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon))
			c := resolved(t, s, nil, store, io.Discard)
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				s.mux[refreshPost] = func(w http.ResponseWriter, r *http.Request) {
					cancel()
					if !tt.answers {
						<-r.Context().Done()
						return
					}
					_, _ = io.WriteString(w, `{"access_token":"`+fresh.Reveal()+`","refresh_token":"rt-2"}`)
				}
				began := time.Now()
				err := c.Authorize(ctx, http.Header{})
				if took := time.Since(began); tt.answers != (err == nil) || !tt.answers && (took != refreshGrace || !errors.Is(err, context.Canceled)) {
					t.Errorf("got %v after %v", err, took)
				}
			})
			if a, err := store.Load(); err != nil || a.Tokens.RefreshToken != tt.want {
				t.Errorf("stored: %v, %v", a, err)
			}
		})
	}
}

// Two programs find at the same time that the tokens need a refresh. The identity service accepts
// the refresh token once. At the end both programs have the resulting tokens.
func TestTwoRefreshAtATime(t *testing.T) {
	s := newIdentityService(t)
	store := stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon))
	fresh := ending(noon.Add(time.Hour))
	first, second := resolved(t, s, nil, store, io.Discard), resolved(t, s, nil, store, io.Discard)
	s.mux[refreshPost] = func(w http.ResponseWriter, _ *http.Request) {
		if len(s.questions()) > 1 {
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = io.WriteString(w, `{"error":{"code":"refresh_token_reused"}}`)
			return
		}
		// The second program sends its request, and is refused, before the first has its answer.
		h := http.Header{}
		if err := second.Authorize(t.Context(), h); err != nil || h.Get("Authorization") != "Bearer "+ending(noon).Reveal() {
			t.Errorf("the second has %v meanwhile, %v", h, err)
		}
		_, _ = io.WriteString(w, `{"access_token":"`+fresh.Reveal()+`","refresh_token":"rt-2"}`)
	}
	if got := headers(t, first).Get("Authorization"); got != "Bearer "+fresh.Reveal() {
		t.Errorf("the first has %s", got)
	}
	if got := headers(t, second).Get("Authorization"); got != "Bearer "+fresh.Reveal() {
		t.Errorf("the second has %s", got)
	}
	if got := len(s.questions()); got != 2 {
		t.Errorf("%d questions", got)
	}
}

// The answer to the second request may be older than the stored tokens.
func TestRefusedButRefreshed(t *testing.T) {
	s := newIdentityService(t)
	store := stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon))
	fresh := ending(noon.Add(time.Hour))
	s.mux[refreshPost] = func(w http.ResponseWriter, _ *http.Request) {
		if err := store.Save(NewChatGPT(tokens(t, fresh), "", noon)); err != nil {
			t.Error(err)
		}
		w.WriteHeader(http.StatusUnauthorized)
	}
	var log strings.Builder
	if got := headers(t, resolved(t, s, nil, store, &log)).Get("Authorization"); got != "Bearer "+fresh.Reveal() || log.Len() > 0 {
		t.Errorf("got %s; logged: %s", got, log.String())
	}
}

// readOnly is a store that cannot be written.
type readOnly struct{ Store }

func (readOnly) Save(*Auth) error { return errors.New("read-only") }

// Tokens that could not be stored are still used. The next refresh uses the refresh token that came
// with them, because the stored one is used up.
func TestRefreshThatIsNotStored(t *testing.T) {
	s := newIdentityService(t)
	store := readOnly{stored(t, NewChatGPT(tokens(t, ending(noon)), "", noon))}
	n := 1
	s.mux[refreshPost] = func(w http.ResponseWriter, _ *http.Request) {
		if q := s.questions(); !strings.Contains(q[len(q)-1].body, fmt.Sprintf(`"rt-%d"`, n)) {
			t.Errorf("refreshed with %s", q[len(q)-1].body)
		}
		n++
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"rt-%d"}`, ending(noon.Add(time.Duration(n)*time.Second)).Reveal(), n)
	}
	c := resolved(t, s, nil, store, io.Discard)
	for range 3 { // they always expire soon
		if got, want := headers(t, c).Get("Authorization"), "Bearer "+ending(noon.Add(time.Duration(n)*time.Second)).Reveal(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
	if n != 4 {
		t.Errorf("refreshed %d times", n-1)
	}
}

// If the query of a URL is a credential, no error contains it.
func TestErrorsKeepTheQuerySecret(t *testing.T) {
	s := newIdentityService(t)
	s.server.Close()
	for url, want := range map[string]string{
		"http://127.0.0.1:9/x?secret": `Post "http://127.0.0.1:9/x": `,
		"http://127.0.0.1:9/x#secret": `Post "http://127.0.0.1:9/x": `,
		"http://me:secret@h/x?secret": `Post "http://me:***@h/x": `,
		"http://me:secret@h h/":       "the URL of the identity service: invalid character",
		"ftp://h/?secret":             "", // an error of the transport
	} {
		_, err := s.authority(environment{"CODEX_REFRESH_TOKEN_URL_OVERRIDE": url}).refresh(t.Context(), tokens(t, "a"))
		if err == nil || strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "Failed to refresh token: "+want) {
			t.Errorf(`%s: got error %v; want an error without "secret", an error beginning with %q`, url, err, "Failed to refresh token: "+want)
		}
		for ; err != nil; err = errors.Unwrap(err) {
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: within is %v", url, err)
			}
		}
	}
}
