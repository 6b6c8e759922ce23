package signin

import (
	"errors"
	"net/http"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"
)

const whoamiGet = "GET https://auth.openai.com/api/accounts/v1/user-auth-credential/whoami"

const whoamiAnswer = `{"email":"a","chatgpt_user_id":"u","chatgpt_account_id":"acct-7","chatgpt_plan_type":"pro","chatgpt_account_is_fedramp":true}`

// This test checks which credential is used, and with which headers.
func TestRegistration(t *testing.T) {
	chat := NewChatGPT(tokens(t, ending(noon.Add(time.Hour))), "sk-in-file", noon)
	chatHeaders := http.Header{"Authorization": {"Bearer " + chat.Tokens.AccessToken.Reveal()}, "Chatgpt-Account-Id": {"acct-1"}, "X-Openai-Fedramp": {"true"}}
	patHeaders := http.Header{"Authorization": {"Bearer at-5"}, "Chatgpt-Account-Id": {"acct-7"}, "X-Openai-Fedramp": {"true"}}
	for name, tt := range map[string]struct {
		env    environment
		stored *Auth
		whoami int
		want   http.Header
		err    error
	}{
		"CODEX_RENDEZVOUS_TOKEN wins":     {environment{"CODEX_RENDEZVOUS_TOKEN": " cxr_1 ", "CODEX_API_KEY": "k"}, chat, 0, http.Header{"Authorization": {"Bearer cxr_1"}}, nil},
		"nothing":                         {nil, nil, 0, nil, ErrNotSignedIn},
		"CODEX_API_KEY wins":              {environment{"CODEX_API_KEY": " k\n", "CODEX_ACCESS_TOKEN": "at-5"}, chat, 0, http.Header{"Authorization": {"Bearer k"}}, nil},
		"a blank one does not":            {environment{"CODEX_API_KEY": " "}, chat, 0, chatHeaders, nil},
		"OPENAI_API_KEY is not looked at": {environment{"OPENAI_API_KEY": "k"}, nil, 0, nil, ErrNotSignedIn},
		"CODEX_ACCESS_TOKEN is next":      {environment{"CODEX_ACCESS_TOKEN": " at-5 "}, chat, 200, patHeaders, nil},
		"which must be known":             {environment{"CODEX_ACCESS_TOKEN": "at-5"}, chat, 401, nil, ErrNotSignedIn},
		"or be a JWT":                     {environment{"CODEX_ACCESS_TOKEN": "x"}, chat, 0, nil, ErrNotSignedIn},
		"a stored key":                    {nil, NewAPIKey("k"), 0, http.Header{"Authorization": {"Bearer k"}}, nil},
		"a stored access token":           {nil, NewPersonalAccessToken("at-5"), 200, patHeaders, nil},
		"stored ChatGPT tokens":           {nil, chat, 0, chatHeaders, nil},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			if tt.whoami != 0 {
				s.on(whoamiGet, tt.whoami, whoamiAnswer)
			}
			var log strings.Builder
			c, err := s.resolver(tt.env, stored(t, tt.stored), &log).Registration(t.Context(), "https://api.openai.com/codex")
			if !errors.Is(err, tt.err) || (err == nil) != (tt.want != nil) {
				t.Fatalf("got %v; logged: %s", err, log.String())
			}
			if err == nil {
				if got := headers(t, c); !reflect.DeepEqual(got, tt.want) {
					t.Errorf("got  %v\nwant %v", got, tt.want)
				}
			}
			for _, q := range s.questions() {
				if q.header.Get("Authorization") != "Bearer at-5" || q.header.Get("Originator") != "codex_cli_rs" {
					t.Errorf("whoami was asked with %v", q.header)
				}
			}
		})
	}
}

func TestBadFileIsNoAuth(t *testing.T) {
	s := newIdentityService(t)
	store := stored(t, nil)
	if err := os.WriteFile(store.path, []byte(`{"OPENAI_API_KEY":sk-secret}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	if _, err := s.resolver(nil, store, &log).Registration(t.Context(), "https://x"); !errors.Is(err, ErrNotSignedIn) {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(log.String(), "auth.json: invalid JSON at byte") || strings.Contains(log.String(), "secret") {
		t.Errorf("logged: %s", log.String())
	}
	if _, err := s.resolver(nil, store, &log).SignedIn(t.Context()); err == nil || errors.Is(err, ErrNoAuth) {
		t.Errorf("signed in: %v", err)
	}
}

// Reasons that are not shown to the user are logged.
func TestCausesAreLogged(t *testing.T) {
	s := newIdentityService(t)
	s.on(whoamiGet, 401, `{"error":{"message":"unknown token"}}`)
	var log strings.Builder
	r := s.resolver(environment{"CODEX_ACCESS_TOKEN": "at-5"}, stored(t, nil), &log)
	const want = "personal access token metadata request failed with status 401 Unauthorized"
	if _, err := r.SignedIn(t.Context()); text(err) != want {
		t.Errorf("signed in: %v", err)
	}
	if _, err := r.Registration(t.Context(), "https://x"); !errors.Is(err, ErrNotSignedIn) || !strings.Contains(log.String(), want+": unknown token") {
		t.Errorf("registration: %v; logged: %s", err, log.String())
	}
	if got := len(s.questions()); got != 3 {
		t.Errorf("%d questions: registering looks for the credentials twice", got)
	}
}

func TestAPIKeyHosts(t *testing.T) {
	s := newIdentityService(t)
	const refused = "remote exec-server API-key authentication is restricted to HTTPS openai.com and openai.org hosts and subdomains or loopback hosts"
	for url, want := range map[string]string{
		"https://openai.com":             "",
		"https://a.b.OpenAI.org/x":       "",
		" https://openai.com ":           "",
		"http://localhost:1":             "",
		"https://localhost":              "",
		"http://127.9.8.7":               "",
		"http://[::1]:80":                "",
		"http://openai.com":              refused,
		"https://notopenai.com":          refused,
		"https://openai.com.evil.test":   refused,
		"https://openai.com@evil.test/":  refused,
		"https://openai.com:x@evil.test": refused,
		"ws://localhost":                 refused,
		"HTTPS://API.OPENAI.COM:8443/x":  "",
		"http://me@localhost":            "",
		"http://[0:0:0:0:0:0:0:1]":       "",
		"http://LOCALHOST":               "",
		"https://openai.com.":            refused,
		"https://.openai.com.evil.test":  refused,
		"https://evil.test/openai.com":   refused,
		"https://evil.test?openai.com":   refused,
		"https://evil.test#.openai.com":  refused,
		"https://evil.test#@openai.com":  refused,
		"https://evil-openai.com":        refused,
		"https://open\u0430i.com":        refused, // a Cyrillic letter
		"https://\uff4fpenai.com":        refused, // a wide character: IDNA makes it narrow
		"https://openai\u3002com":        refused, // a wide full stop
		"https://xn--penai-rye.com":      refused,
		"http://localhost.":              refused,
		"http://0.0.0.0":                 refused,
		"http://127.1":                   refused,
		"http://2130706433":              refused,
		"http://0x7f.0.0.1":              refused,
		"http://[::]":                    refused,
		"http://[::127.0.0.1]":           refused,
		"http://[64:ff9b::7f00:1]":       refused,
		"http://[fe80::1]":               refused,
		"file://localhost/etc/passwd":    refused,
		"https://openai.com\\@evil.test": "invalid remote exec-server registration URL: net/url: invalid userinfo",
		"https://openai.com%2eevil.test": "invalid remote exec-server registration URL: invalid URL escape \"%2e\"",
		"https://openai.com\x00.evil":    "invalid remote exec-server registration URL: net/url: invalid control character in URL",
		"https://[openai.com":            "invalid remote exec-server registration URL: invalid IPv6 address",
		"http://[zz]:1":                  "invalid remote exec-server registration URL: invalid IPv6 address",
		"http://":                        "invalid remote exec-server registration URL: empty host",
		"https://me@/x":                  "invalid remote exec-server registration URL: empty host",
		"http://:80":                     "invalid remote exec-server registration URL: empty host",
		"http://localhost:99999":         "invalid remote exec-server registration URL: invalid port number",
		"http://[::1]:ab":                "invalid remote exec-server registration URL: invalid port number",
		"https://openai.com|evil":        "invalid remote exec-server registration URL: invalid international domain name",
		"127.0.0.1:8080":                 "invalid remote exec-server registration URL: relative URL without a base",
		"://openai.com":                  "invalid remote exec-server registration URL: relative URL without a base",
		"openai.com:443":                 "remote exec-server registration URL must include a host",
		"http://localhost:":              "",
		"//openai.com":                   "invalid remote exec-server registration URL: relative URL without a base",
		"http://128.0.0.1":               refused,
		"http://[::ffff:127.0.0.1]":      refused,
		"http://localhost.evil.test":     refused,
		"https:///x":                     "remote exec-server registration URL must include a host",
		"":                               "invalid remote exec-server registration URL: relative URL without a base",
		"http://a b":                     "invalid remote exec-server registration URL: invalid international domain name",
	} {
		_, err := s.resolver(environment{"CODEX_API_KEY": "k"}, &memoryStore{}, &strings.Builder{}).Registration(t.Context(), url)
		if got := text(err); got != want {
			t.Errorf("%s\ngot  %s\nwant %s", url, got, want)
		}
	}
	// Tokens may be sent to any host.
	chat := NewChatGPT(tokens(t, ending(noon.Add(time.Hour))), "", noon)
	if _, err := s.resolver(nil, stored(t, chat), &strings.Builder{}).Registration(t.Context(), "http://evil.test"); err != nil {
		t.Error(err)
	}
}

// text returns the text of an error, or "".
func text(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// withCause returns an error's text with the cause that is printed below it.
func withCause(err error) string {
	var caused *causedError
	if errors.As(err, &caused) && caused.cause != nil {
		return err.Error() + " | " + caused.cause.Error()
	}
	return text(err)
}

func TestTexts(t *testing.T) {
	for got, want := range map[string]string{
		ErrNotSignedIn.Error():      "remote exec-server registration requires ChatGPT authentication or API key authentication; run `codex login` or set CODEX_API_KEY",
		ErrAgentNotAsked.Error():    "remote exec-server registration requires ChatGPT authentication or API key authentication; Agent Identity auth requires --use-agent-identity-auth",
		ErrNoAccessToken.Error():    "CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set",
		maskKey("sk-proj-12ABCDE"):  "sk-proj-***ABCDE",
		maskKey("sk-proj-ABCDE"):    "***",
		maskKey("sk-proj-1ABCDE"):   "sk-proj-***ABCDE",
		release("Debian GNU", "12"): "Debian 12.0.0",
		release("", ""):             "Linux",
		terminal(environment{"TERM_PROGRAM": "iTerm", "TERM_PROGRAM_VERSION": "3", "TERM": "x"}.get): "iTerm/3",
		terminal(environment{"TERM": "xterm"}.get):                                                   "xterm",
		terminal(environment{}.get):                                                                  "unknown",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
