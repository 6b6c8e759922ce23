package cli

import (
	"bytes"
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestLoginThroughAProxy: the identity service has a fixed address. The program reaches it through
// the user's proxy, and verifies it with the user's certificate authorities.
func TestLoginThroughAProxy(t *testing.T) {
	t.Parallel()
	const host = "auth.openai.com"
	certificate, ca := harness.Authority(t, host)
	var mu sync.Mutex
	var asked []string
	service := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, r.Method+" "+r.Host+r.URL.Path+" "+r.Header.Get("Authorization")+" "+r.Header.Get("Accept-Encoding"))
		_, _ = io.WriteString(w, `{"chatgpt_account_id":"acct-1"}`)
	}))
	service.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	service.StartTLS()
	defer service.Close()
	home := t.TempDir()
	bundle := filepath.Join(home, "ca.pem")
	if err := os.WriteFile(bundle, ca, 0o600); err != nil {
		t.Fatal(err)
	}
	login := func(stdin string, args ...string) string {
		cmd := exec.Command(harness.Codex, args...)
		cmd.Env = []string{"CODEX_HOME=" + home, "HOME=" + home, "PATH=/nowhere", "HTTPS_PROXY=" + harness.ConnectProxy(t, service.Listener.Addr().String()), "CODEX_CA_CERTIFICATE=" + bundle}
		var errs bytes.Buffer
		cmd.Stdin, cmd.Stderr = strings.NewReader(stdin), &errs
		if err := cmd.Run(); err != nil {
			t.Errorf("codex %q: %v: %s", args, err, errs.String())
		}
		return errs.String()
	}
	if got := login("at-5\n", "login", "--with-access-token"); got != "Reading access token from stdin...\nSuccessfully logged in\n" {
		t.Errorf("login: %q", got)
	}
	if got := login("", "login", "status"); got != "Logged in using personal access token\n" {
		t.Errorf("login status: %q", got)
	}
	if got := login("", "logout"); got != "Successfully logged out\n" {
		t.Errorf("logout: %q", got)
	}
	mu.Lock()
	defer mu.Unlock()
	const whoami = "GET " + host + "/api/accounts/v1/user-auth-credential/whoami Bearer at-5 "
	if len(asked) != 2 || asked[0] != whoami || asked[1] != whoami {
		t.Errorf("asked: %q", asked)
	}
}
