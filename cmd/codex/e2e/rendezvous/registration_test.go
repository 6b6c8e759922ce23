package rendezvous

import (
	"crypto"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/relay"
)

// identityService acts as the identity service and the registry of a test. It records the requests.
// Its relay refuses all connections, so that executors register again and again.
type identityService struct {
	*httptest.Server
	answers  map[string]string
	requests chan *http.Request // each request has the content of its body in Form, as
}

func newIdentityService(t *testing.T, answers map[string]string) *identityService {
	s := &identityService{answers: answers, requests: make(chan *http.Request, 100)}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/relay" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		r.Form = map[string][]string{"body": {string(body)}}
		s.requests <- r
		if answer, ok := s.answers[r.URL.Path]; ok {
			_, _ = io.WriteString(w, answer)
			return
		}
		fmt.Fprintf(w, `{"environment_id":"env","url":"ws://%s/relay","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r"}`, r.Host)
	}))
	t.Cleanup(s.Close)
	return s
}

// TestDescription: an executor and a client use registries that accept descriptions, that do not, and that
// answer with other data. They send a description only to the first kind, with the configured content. The
// description of a client has no name.
func TestDescription(t *testing.T) {
	t.Parallel()
	host, err := os.Hostname()
	harness.Must(t, err)
	v := version(t)
	for _, tt := range []struct {
		end       string // the described end: exec-server or remote
		announces string
		args      []string
		want      relay.Description
	}{
		{"exec-server", `,"accepts_description":true`, nil, relay.Description{Name: host, Agent: "codex-exec-server/" + v}},
		{"exec-server", `,"accepts_description":true`, []string{"--name", "Büro\n1"}, relay.Description{Name: "Büro\uFFFD1", Agent: "codex-exec-server/" + v}},
		{"exec-server", `,"accepts_description":true`, []string{"--no-description", "--name", "box"}, relay.Description{}},
		{"exec-server", `,"accepts_description":false`, nil, relay.Description{}},
		{"exec-server", `,"accepts_description":"true"`, nil, relay.Description{}},
		{"exec-server", `,"accepts_description":{"a":[true]}`, []string{"--name", "box"}, relay.Description{}},
		{"exec-server", ``, []string{"--name", "box"}, relay.Description{}},
		{"remote", `,"accepts_description":true`, nil, relay.Description{Agent: "codex-remote/" + v}},
		{"remote", `,"accepts_description":1`, nil, relay.Description{}},
		{"remote", ``, nil, relay.Description{}},
	} {
		t.Run(tt.end+tt.announces+strings.Join(tt.args, " "), func(t *testing.T) {
			t.Parallel()
			s, dialed := announcingRegistry(t, tt.announces)
			if tt.end == "remote" {
				connects(t, s.URL)
			} else {
				(&identityService{Server: s}).registers(t, append(os.Environ(), "CODEX_RENDEZVOUS_TOKEN=cxr_0"), tt.args...)
			}
			select {
			case h := <-dialed:
				if d := relay.ReadDescription(h); d != tt.want {
					t.Errorf("the relay is told %+v, want %+v", d, tt.want)
				}
				if _, ok := h[relay.NameHeader]; ok != (tt.want.Name != "") {
					t.Errorf("headers %v", h)
				}
			case <-time.After(harness.Patience):
				t.Fatal("no connection to the relay")
			}
		})
	}
}

// announcingRegistry starts a registry whose answers have additional members. It refuses
// connections to its relay, and sends the headers of their requests to dialed.
func announcingRegistry(t *testing.T, members string) (s *httptest.Server, dialed <-chan http.Header) {
	t.Helper()
	key, err := json.Marshal(harness.PublicKey(t))
	harness.Must(t, err)
	headers := make(chan http.Header, 100)
	s = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/relay" {
			headers <- r.Header
			w.WriteHeader(http.StatusForbidden)
			return
		}
		if d := relay.ReadDescription(r.Header); d != (relay.Description{}) {
			t.Errorf("the registry is told %+v before it has answered", d)
		}
		fmt.Fprintf(w, `{"environment_id":"env","url":"ws://%s/relay","security_profile":"noise_hybrid_ik_v1","executor_registration_id":"r",`+
			`"executor_public_key":%s,"harness_key_authorization":"a"%s}`, r.Host, key, members)
	}))
	t.Cleanup(s.Close)
	return s, headers
}

// connects starts a client that connects through a registry.
func connects(t *testing.T, registry string) {
	t.Helper()
	home, env := harness.HomeDirectory(t, nil)
	cmd := exec.Command(harness.Codex, "remote", "--env", "env", "run", "--", "true")
	cmd.Dir, cmd.Env = home, registryEnv(env, &harness.Meeting{URL: registry}, "cxr_0")
	startUntilEnd(t, cmd)
}

// startUntilEnd starts a command that is killed at the end of the test.
func startUntilEnd(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	cmd.Stderr = harness.ShownOnFailure(t)
	harness.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// version returns the version of the programs under test.
func version(t *testing.T) string {
	t.Helper()
	out, errs, code := harness.Run(t, "", "--version")
	if code != 0 {
		t.Fatal(errs)
	}
	return strings.TrimPrefix(strings.TrimSpace(out), "codex ")
}

// next returns the next request for a path. It skips others.
func (s *identityService) next(t *testing.T, path string) *http.Request {
	t.Helper()
	timeout := time.After(harness.Patience)
	for {
		select {
		case r := <-s.requests:
			if r.URL.Path == path {
				return r
			}
		case <-timeout:
			t.Fatalf("nobody asks for %s", path)
		}
	}
}

const registerPath = "/cloud/environment/env/register"

// registers starts an executor that registers at the service.
func (s *identityService) registers(t *testing.T, env []string, args ...string) {
	t.Helper()
	cmd := exec.Command(harness.Codex, append([]string{"exec-server", "--remote", s.URL, "--environment-id", "env"}, args...)...)
	cmd.Env = env
	startUntilEnd(t, cmd)
}

func segment(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// chatGPTToken returns a token that expires at a time. These tests do not check its signature.
func chatGPTToken(name string, ends time.Time) string {
	return segment(map[string]string{"alg": "none"}) + "." + segment(map[string]any{
		"name": name, "exp": ends.Unix(), "https://api.openai.com/auth": map[string]any{"chatgpt_account_id": "acct-1"},
	}) + ".x"
}

// TestRegistrationsAreOfOneIdentity: the identity stays the same when the relay makes a server
// register again. The registration does not contain the name.
func TestRegistrationsAreOfOneIdentity(t *testing.T) {
	t.Parallel()
	s := newIdentityService(t, nil)
	_, env := harness.HomeDirectory(t, nil)
	s.registers(t, append(env, "CODEX_API_KEY=k"), "--name", "n")
	want := regexp.MustCompile(`^{"security_profile":"noise_hybrid_ik_v1","executor_public_key":{"suite":"Noise_hybridIK_X25519\+MLKEM768_AESGCM_SHA256","x25519_public_key":"[^"]+","mlkem768_public_key":"[^"]+"}}$`)
	first := s.next(t, registerPath).Form.Get("body")
	if !want.MatchString(first) {
		t.Errorf("got %s, want want.MatchString(first)", first)
	}
	if second := s.next(t, registerPath).Form.Get("body"); second != first {
		t.Errorf("%s, and then %s", first, second)
	}
}

// TestTokensAreRefreshedWhileAServerRuns: after the first registration the
// token is within five minutes of its expiry, so it is refreshed.
func TestTokensAreRefreshedWhileAServerRuns(t *testing.T) {
	t.Parallel()
	first, second := chatGPTToken("first", time.Now().Add(5*time.Minute+6*time.Second)), chatGPTToken("second", time.Now().Add(time.Hour))
	s := newIdentityService(t, map[string]string{"/oauth/token": fmt.Sprintf(`{"access_token":%q,"refresh_token":"r2"}`, second)})
	auth := fmt.Sprintf(`{"auth_mode":"chatgpt","OPENAI_API_KEY":null,"tokens":{"id_token":%q,"access_token":%q,"refresh_token":"r1","account_id":"acct-1"},"last_refresh":"2026-11-01T00:00:00Z","of_others":[1]}`, first, first)
	home, env := harness.HomeDirectory(t, map[string]string{"auth.json": auth})
	s.registers(t, append(env, "CODEX_REFRESH_TOKEN_URL_OVERRIDE="+s.URL+"/oauth/token"))
	if r := s.next(t, registerPath); r.Header.Get("Authorization") != "Bearer "+first || r.Header.Get("Chatgpt-Account-Id") != "acct-1" {
		t.Errorf("first: %v", r.Header)
	}
	if r := s.next(t, "/oauth/token"); !strings.Contains(r.Form.Get("body"), `"refresh_token":"r1"`) {
		t.Errorf("refresh: %s", r.Form.Get("body"))
	}
	if r := s.next(t, registerPath); r.Header.Get("Authorization") != "Bearer "+second {
		t.Errorf("second: %v", r.Header)
	}
	text, err := os.ReadFile(filepath.Join(home, "auth.json"))
	harness.Must(t, err)
	if !strings.Contains(string(text), second) || !strings.Contains(string(text), `"r2"`) || !strings.Contains(string(text), "of_others") {
		t.Errorf("auth.json: %s", text)
	}
}

// TestAgentsRegister: an agent proves its identity with a key, separately for each request.
func TestAgentsRegister(t *testing.T) {
	t.Parallel()
	trusted, err := rsa.GenerateKey(rand.Reader, 2048)
	harness.Must(t, err)
	key, private, err := ed25519.GenerateKey(rand.Reader)
	harness.Must(t, err)
	der, err := x509.MarshalPKCS8PrivateKey(private)
	harness.Must(t, err)
	unsigned := segment(map[string]string{"alg": "RS256", "kid": "k1"}) + "." + segment(map[string]any{
		"iss": "https://chatgpt.com/codex-backend/agent-identity", "aud": "codex-app-server", "exp": time.Now().Add(time.Hour).Unix(), "iat": time.Now().Unix(),
		"agent_runtime_id": "agent-rt-1", "agent_private_key": base64.StdEncoding.EncodeToString(der), "account_id": "acct-9", "chatgpt_user_id": "u",
		"email": "e@example.com", "plan_type": "pro", "chatgpt_account_is_fedramp": false,
	})
	digest := sha256.Sum256([]byte(unsigned))
	signature, err := rsa.SignPKCS1v15(rand.Reader, trusted, crypto.SHA256, digest[:])
	harness.Must(t, err)
	encode := base64.RawURLEncoding.EncodeToString
	keys := fmt.Sprintf(`{"keys":[{"kty":"RSA","alg":"RS256","use":"sig","kid":"k1","n":%q,"e":%q}]}`, encode(trusted.N.Bytes()), encode(big.NewInt(int64(trusted.E)).Bytes()))
	// Codex uses a fixed host for agents, and reaches it through the user's proxy.
	s := newIdentityService(t, map[string]string{
		"/backend-api/wham/agent-identities/jwks":         keys,
		"/api/accounts/v1/agent/agent-rt-1/task/register": `{"task_id":"task-1"}`,
	})
	certificate, ca := harness.Authority(t, "chatgpt.com", "auth.openai.com")
	front := httptest.NewUnstartedServer(s.Config.Handler)
	front.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	front.StartTLS()
	defer front.Close()
	home, env := harness.HomeDirectory(t, nil)
	bundle := filepath.Join(home, "ca.pem")
	harness.Must(t, os.WriteFile(bundle, ca, 0o600))
	s.registers(t, append(env, "CODEX_ACCESS_TOKEN="+unsigned+"."+encode(signature), "HTTPS_PROXY="+harness.ConnectProxy(t, front.Listener.Addr().String()), "CODEX_CA_CERTIFICATE="+bundle), "--use-agent-identity-auth")
	for range 2 {
		r := s.next(t, registerPath)
		text, ok := strings.CutPrefix(r.Header.Get("Authorization"), "AgentAssertion ")
		var assertion struct {
			Runtime   string `json:"agent_runtime_id"`
			Signature []byte `json:"signature"`
			Task      string `json:"task_id"`
			Time      string `json:"timestamp"`
		}
		decoded, err := base64.RawURLEncoding.DecodeString(text)
		harness.Must(t, err)
		harness.Must(t, json.Unmarshal(decoded, &assertion))
		signed := assertion.Runtime + ":" + assertion.Task + ":" + assertion.Time
		if !ok || assertion.Task != "task-1" || !ed25519.Verify(key, []byte(signed), assertion.Signature) || r.Header.Get("Chatgpt-Account-Id") != "acct-9" {
			t.Errorf(`got decoded %s, r.Header %v; want ok true, assertion.Task "task-1", ed25519.Verify(key, []byte(signed), assertion.Signature), r.Header.Get("Chatgpt-Account-Id") "acct-9"`, decoded, r.Header)
		}
	}
}
