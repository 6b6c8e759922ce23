package signin

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
)

// These files were observed with Codex CLI.
func TestAuthFiles(t *testing.T) {
	at := noon
	for name, tt := range map[string]struct {
		auth *Auth
		want string
		mode Mode
	}{
		"API key":               {NewAPIKey("sk-1&2"), "{\n  \"auth_mode\": \"apikey\",\n  \"OPENAI_API_KEY\": \"sk-1&2\"\n}", ModeAPIKey},
		"personal access token": {NewPersonalAccessToken("at-5"), "{\n  \"OPENAI_API_KEY\": null,\n  \"personal_access_token\": \"at-5\"\n}", ModePersonalAccessToken},
		"agent identity":        {NewAgentIdentity("eyJ"), "{\n  \"auth_mode\": \"agentIdentity\",\n  \"OPENAI_API_KEY\": null,\n  \"agent_identity\": \"eyJ\"\n}", ModeAgentIdentity},
		"ChatGPT": {NewChatGPT(tokens(t, "access"), "", at), `{
  "auth_mode": "chatgpt",
  "OPENAI_API_KEY": null,
  "tokens": {
    "id_token": "` + tokens(t, "").IDToken.Reveal() + `",
    "access_token": "access",
    "refresh_token": "rt-1",
    "account_id": "acct-1"
  },
  "last_refresh": "2026-11-20T12:00:00.123456789Z"
}`, ModeChatGPT},
	} {
		t.Run(name, func(t *testing.T) {
			s := stored(t, tt.auth)
			text, err := os.ReadFile(s.path)
			if err != nil || string(text) != tt.want {
				t.Errorf("got  %s, %v\nwant %s", text, err, tt.want)
			}
			a, err := s.Load()
			if err != nil || a.Mode != tt.mode || a.APIKey != tt.auth.APIKey || a.PersonalAccessToken != tt.auth.PersonalAccessToken ||
				a.AgentIdentity != tt.auth.AgentIdentity || !a.LastRefresh.Equal(tt.auth.LastRefresh) {
				t.Errorf("read as %v of mode %s, %v", a, a.Mode, err)
			}
			if tt.auth.Tokens != nil && *a.Tokens != *tt.auth.Tokens {
				t.Errorf("tokens differ")
			}
			if st, err := os.Stat(s.path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", st.Mode(), err)
			}
		})
	}
}

func TestParseAuth(t *testing.T) {
	id := idToken(`{}`)
	for text, want := range map[string]string{ // a mode, or an error
		`{}`: "chatgpt",
		`{"OPENAI_API_KEY":null,"tokens":null,"more":[1]}`:                                             "chatgpt",
		`{"OPENAI_API_KEY":"k"}`:                                                                       "apikey",
		`{"OPENAI_API_KEY":"k","bedrock_api_key":{}}`:                                                  "bedrockApiKey",
		`{"OPENAI_API_KEY":"k","bedrock_api_key":{},"personal_access_token":"at-1"}`:                   "personalAccessToken",
		`{"auth_mode":"chatgpt","OPENAI_API_KEY":"k"}`:                                                 "chatgpt",
		`{"auth_mode":"ChatGPT"}`:                                                                      "auth_mode is unknown",
		`{"auth_mode":1}`:                                                                              "auth_mode has the wrong type",
		`{"OPENAI_API_KEY":["sk-secret"]}`:                                                             "OPENAI_API_KEY has the wrong type",
		`{"last_refresh":"yesterday"}`:                                                                 "last_refresh is not an RFC 3339 time",
		`{"tokens":{"id_token":"x.y","access_token":"","refresh_token":""}}`:                           "tokens: id_token: invalid ID token format",
		`{"tokens":{"id_token":"a.!.c","access_token":"","refresh_token":""}}`:                         "the payload is not base64url",
		`{"tokens":{"id_token":"a.YQ.c","access_token":"","refresh_token":""}}`:                        "the payload is not the JSON of claims",
		`{"tokens":{"id_token":"` + id + `","access_token":""}}`:                                       "tokens: missing field `refresh_token`",
		`{"tokens":{"id_token":"` + id + `","access_token":{},"refresh_token":""}}`:                    "tokens.access_token has the wrong type",
		`{"tokens":{"id_token":"` + id + `","access_token":"a","refresh_token":"","account_id":null}}`: "chatgpt",
		``:                      "expected a JSON object and nothing after it",
		`[]`:                    "expected a JSON object and nothing after it",
		`{} {}`:                 "expected a JSON object and nothing after it",
		`{"OPENAI_API_KEY":sk}`: "invalid JSON at byte",
	} {
		a, err := ParseAuth([]byte(text))
		got := ""
		if err == nil {
			got = string(a.Mode)
		} else {
			got = err.Error()
		}
		if !strings.Contains(got, want) || strings.Contains(got, "secret") {
			t.Errorf("%s\ngot  %s\nwant %s", text, got, want)
		}
	}
}

func TestIDClaims(t *testing.T) {
	for payload, want := range map[string]IDClaims{
		`{"email":"a","https://api.openai.com/profile":{"email":"b"}}`: {Email: "a"},
		`{"https://api.openai.com/profile":{"email":"b"}}`:             {Email: "b"},
		`{"https://api.openai.com/auth":{"user_id":"u","chatgpt_plan_type":"pro","chatgpt_account_id":"c","chatgpt_account_is_fedramp":true}}`: {
			UserID: "u", PlanType: "pro", AccountID: "c", FedRAMP: true},
		`{"https://api.openai.com/auth":{"user_id":"u","chatgpt_user_id":"v"}}`: {UserID: "v"},
	} {
		if got, err := ParseIDClaims(Secret(idToken(payload))); err != nil || got != want {
			t.Errorf("%s: got %+v, error %v; want no error, %+v", payload, got, err, want)
		}
	}
}

func TestUnknownMembersStay(t *testing.T) {
	s := stored(t, nil)
	old := `{"later":{"b":1,"a":[2]},"auth_mode":"chatgpt","tokens":{"id_token":"` + idToken("{}") + `","access_token":"old","refresh_token":"r","more":true},"x":"<&>"}`
	if err := os.WriteFile(s.path, []byte(old), 0o644); err != nil {
		t.Fatal(err)
	}
	a, err := s.Load()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Save(a.withTokens(tokens(t, "new"), noon)); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(s.path)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"\"b\": 1", "\"more\": true", `"x": "<&>"`, `"access_token": "new"`, `"last_refresh": "2026`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	// A new credential replaces this one, and nothing else.
	if err := s.Save(NewAPIKey("k")); err != nil {
		t.Fatal(err)
	}
	text, err = os.ReadFile(s.path)
	if err != nil || strings.Contains(string(text), "tokens") || !strings.Contains(string(text), `"later"`) {
		t.Errorf("got %s, %v", text, err)
	}
	if st, err := os.Stat(s.path); err != nil || runtime.GOOS != "windows" && st.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", st.Mode(), err)
	}
	left, err := os.ReadDir(filepath.Dir(s.path))
	if err != nil || len(left) != 1 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestWarningOfReaders(t *testing.T) {
	if runtime.GOOS == "windows" {
		return // if the mode does not determine the kind
	}
	for mode, want := range map[os.FileMode]int{0o600: 0, 0o400: 0, 0o640: 1, 0o604: 1} {
		home, warned := t.TempDir(), 0
		path := filepath.Join(home, FileName)
		if err := errors.Join(os.WriteFile(path, nil, 0o600), os.Chmod(path, mode)); err != nil {
			t.Fatal(err)
		}
		_, err := OpenStore("file", home, func(text string) {
			if warned++; !strings.Contains(text, path) {
				t.Errorf("got %s, want a text with %q", text, path)
			}
		})
		if err != nil || warned != want {
			t.Errorf("mode %o: %d warnings, %v", mode, warned, err)
		}
	}
}

func TestStores(t *testing.T) {
	for _, kind := range []string{"", "file", "auto", "ephemeral"} {
		t.Run("kind "+kind, func(t *testing.T) {
			warned := 0
			s, err := OpenStore(kind, filepath.Join(t.TempDir(), "home"), func(string) { warned++ })
			if err != nil || (warned == 1) != (kind == "auto") {
				t.Fatalf("%d warnings, %v", warned, err)
			}
			if _, err := s.Load(); !errors.Is(err, ErrNoAuth) {
				t.Errorf("load: %v", err)
			}
			if there, err := s.Delete(); there || err != nil {
				t.Errorf("delete: %v, %v", there, err)
			}
			if err := s.Save(NewAPIKey("k")); err != nil {
				t.Fatal(err)
			}
			if a, err := s.Load(); err != nil || a.APIKey != "k" {
				t.Errorf("load: %v, %v", a, err)
			}
			if there, err := s.Delete(); !there || err != nil {
				t.Errorf("delete: %v, %v", there, err)
			}
		})
	}
	for kind, want := range map[string]string{"keyring": "this codex cannot use a keyring; set it to file", "vault": `is "vault"`} {
		if _, err := OpenStore(kind, t.TempDir(), nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got error %v, want an error with %q", kind, err, want)
		}
	}
}

func TestLinkedFileStaysALink(t *testing.T) {
	dir := t.TempDir()
	target, link := filepath.Join(dir, "target"), filepath.Join(dir, FileName)
	if err := os.WriteFile(target, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	if err := (&fileStore{link}).Save(NewAPIKey("k")); err != nil {
		t.Fatal(err)
	}
	if text, err := os.ReadFile(target); err != nil || !strings.Contains(string(text), "apikey") {
		t.Errorf("the target has %s, %v", text, err)
	}
}

func TestFileWithoutEnd(t *testing.T) {
	s := stored(t, nil)
	if err := os.WriteFile(s.path, make([]byte, maxAuthFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Load(); err == nil || !strings.Contains(err.Error(), "is larger than") {
		t.Errorf("load: %v", err)
	}
}

// FuzzAuth checks that an accepted file is unchanged when it is written and read again.
func FuzzAuth(f *testing.F) {
	f.Add([]byte(`{"OPENAI_API_KEY":"k","more":{"a":[1,2]}}`))
	f.Add([]byte(`{"auth_mode":"chatgpt","tokens":{"id_token":"` + idToken("{}") + `","access_token":"a","refresh_token":"r"},"last_refresh":"2026-11-20T23:28:40.821875578Z"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		a, err := ParseAuth(text)
		if err != nil {
			return
		}
		written, err := a.JSON()
		if err != nil {
			t.Fatal(err)
		}
		b, err := ParseAuth(written)
		if err != nil {
			t.Fatalf("%s: got error %v, want no error", written, err)
		}
		if a.Mode != b.Mode || a.APIKey != b.APIKey || a.PersonalAccessToken != b.PersonalAccessToken || len(a.doc.names) != len(b.doc.names) {
			t.Errorf("%s is read as another than %s", written, text)
		}
	})
}
