//go:build interop

package interop

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
)

// signedIn is a home directory, and the services that a sign-in there uses.
type signedIn struct {
	t    *testing.T
	home string
	url  string

	mu    sync.Mutex
	asked []string // path, authorization and, if the request is about tokens, its body
	fresh string   // the access token that a refresh returns
}

func newSignedIn(t *testing.T) *signedIn {
	h := &signedIn{t: t, home: t.TempDir()}
	s := httptest.NewServer(h)
	t.Cleanup(s.Close)
	h.url = s.URL
	return h
}

func (h *signedIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	h.mu.Lock()
	defer h.mu.Unlock()
	question := r.URL.Path + " " + r.Header.Get("Authorization")
	switch {
	case strings.HasSuffix(r.URL.Path, "/whoami"):
		_, _ = io.WriteString(w, `{"email":"a@b.test","chatgpt_user_id":"u","chatgpt_account_id":"acct-1","chatgpt_plan_type":"pro","chatgpt_account_is_fedramp":false}`)
	case r.URL.Path == "/refresh":
		question += string(body)
		_, _ = fmt.Fprintf(w, `{"access_token":%q,"refresh_token":"rt-2"}`, h.fresh)
	default: // the registry refuses all registrations
		w.WriteHeader(http.StatusNotFound)
	}
	h.asked = append(h.asked, question)
}

// run runs a command of either codex to its end and returns its output.
func (h *signedIn) run(program, stdin string, args ...string) string {
	h.t.Helper()
	cmd := exec.CommandContext(h.t.Context(), program, args...)
	cmd.Env = []string{"HOME=" + h.home, "CODEX_HOME=" + h.home, "PATH=" + os.Getenv("PATH"),
		"CODEX_AUTHAPI_BASE_URL=" + h.url, "CODEX_REFRESH_TOKEN_URL_OVERRIDE=" + h.url + "/refresh"}
	cmd.Stdin = strings.NewReader(stdin)
	out, _ := cmd.CombinedOutput() // the output describes how it ends
	return string(out)
}

func (h *signedIn) file() string {
	text, _ := os.ReadFile(filepath.Join(h.home, "auth.json")) // empty if the file is missing
	return string(text)
}

// TestEitherSignsInForTheOther: each codex uses, and deletes, the credentials that the other has
// stored. Both store the same data.
func TestEitherSignsInForTheOther(t *testing.T) {
	upstream := variable(t, upstreamVariable)
	for flag, tt := range map[string]struct{ secret, status string }{
		"--with-api-key":      {"sk-proj-12345ABCDE", "sk-proj-***ABCDE"},
		"--with-access-token": {"at-5", "personal access token"},
	} {
		var files []string
		for _, p := range []struct{ in, out string }{{upstream, harness.Codex}, {harness.Codex, upstream}} {
			h := newSignedIn(t)
			if said := h.run(p.in, tt.secret+"\n", "login", flag); h.file() == "" {
				t.Fatalf(`%s %s: got %s, want h.file() other than ""`, p.in, flag, said)
			}
			files = append(files, h.file())
			if said := h.run(p.out, "", "login", "status"); !strings.Contains(said, tt.status) {
				t.Errorf("%s %s: got %s, want a text with %q", p.out, flag, said, tt.status)
			}
			if said := h.run(p.out, "", "logout"); !strings.HasSuffix(said, "Successfully logged out\n") || h.file() != "" {
				t.Errorf("%s: %s; left: %s", p.out, said, h.file())
			}
		}
		if files[0] != files[1] || files[0] == "" {
			t.Errorf("%s: Codex CLI stores\n%s\nand we\n%s", flag, files[0], files[1])
		}
	}
}

// TestEitherRefreshesForTheOther: one codex refreshes the tokens, and the other registers with the
// stored tokens.
func TestEitherRefreshesForTheOther(t *testing.T) {
	upstream := variable(t, upstreamVariable)
	jwt := func(claims string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(claims)) + ".c2ln"
	}
	for _, p := range []struct{ first, second string }{{upstream, harness.Codex}, {harness.Codex, upstream}} {
		h := newSignedIn(t)
		h.fresh = jwt(fmt.Sprintf(`{"exp":%d}`, time.Now().Add(time.Hour).Unix()))
		id := jwt(`{"email":"a@b.test","https://api.openai.com/auth":{"chatgpt_account_id":"acct-1"}}`)
		harness.Must(t, os.WriteFile(filepath.Join(h.home, "auth.json"), fmt.Appendf(nil,
			`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"rt-1","account_id":"acct-1"},"last_refresh":"2026-01-01T00:00:00Z"}`,
			id, jwt(fmt.Sprintf(`{"exp":%d}`, time.Now().Add(-time.Hour).Unix()))), 0o600))
		for _, program := range []string{p.first, p.second} {
			if said := h.run(program, "", "exec-server", "--remote", h.url, "--environment-id", "env-1"); !strings.Contains(said, "404 Not Found") {
				t.Errorf(`%s: got %s, want a text with "404 Not Found"`, program, said)
			}
			if file := h.file(); !strings.Contains(file, h.fresh) || !strings.Contains(file, `"rt-2"`) {
				t.Errorf("%s leaves %s", program, file)
			}
		}
		register := "/cloud/environment/env-1/register Bearer " + h.fresh
		h.mu.Lock()
		// Later versions send more data in a refresh.
		if len(h.asked) != 3 || !strings.HasPrefix(h.asked[0], "/refresh ") || !strings.Contains(h.asked[0], `"refresh_token":"rt-1"`) || h.asked[1] != register || h.asked[2] != register {
			t.Errorf("%s, then %s: asked %q", p.first, p.second, h.asked)
		}
		h.mu.Unlock()
	}
}
