package signin

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// noon is the time of most tests.
var noon = time.Date(2026, 11, 20, 12, 0, 0, 123456789, time.UTC)

// identityService acts as the identity service and as ChatGPT's backend, under all their host
// names. It records the requests.
type identityService struct {
	t      *testing.T
	server *httptest.Server
	mux    map[string]http.HandlerFunc // by "METHOD https://host/path"
	direct bool                        // is called without a network, as in a bubble of synctest

	mu    sync.Mutex
	asked []exchange
}

// exchange is one request.
type exchange struct {
	method, url string
	header      http.Header
	body        string
}

func newIdentityService(t *testing.T) *identityService {
	s := &identityService{t: t, mux: map[string]http.HandlerFunc{}}
	s.server = httptest.NewServer(s)
	t.Cleanup(s.server.Close)
	return s
}

func (s *identityService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		s.t.Error(err)
	}
	target := r.Header.Get("X-Test-Target")
	r.Header.Del("X-Test-Target")
	s.mu.Lock()
	s.asked = append(s.asked, exchange{r.Method, target, r.Header, string(body)})
	s.mu.Unlock()
	key, _, _ := strings.Cut(r.Method+" "+target, "?")
	handler := s.mux[key]
	if handler == nil {
		s.t.Errorf("nobody was to ask %s %s", r.Method, target)
		http.NotFound(w, r)
		return
	}
	handler(w, r)
}

// RoundTrip sends every request to the server, whatever its host.
func (s *identityService) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	there := r.Clone(r.Context())
	there.Header.Set("X-Test-Target", r.URL.String())
	there.URL.Scheme, there.URL.Host = "http", strings.TrimPrefix(s.server.URL, "http://")
	if s.direct {
		w := httptest.NewRecorder()
		s.ServeHTTP(w, there)
		return w.Result(), nil
	}
	return s.server.Client().Transport.RoundTrip(there)
}

// on answers a request with a status and a body.
func (s *identityService) on(what string, status int, body string) {
	s.mux[what] = func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// questions returns the requests so far.
func (s *identityService) questions() []exchange {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.asked)
}

func (s *identityService) authority(env environment) *Authority {
	return NewAuthority(AuthorityOptions{Getenv: env.get, Transport: s, Version: "1.2.3", Now: func() time.Time { return noon }})
}

// resolver finds credentials in an environment and in a home directory.
func (s *identityService) resolver(env environment, store Store, log io.Writer) *Resolver {
	return &Resolver{Getenv: env.get, Store: store, Authority: s.authority(env), Log: slog.New(slog.NewTextHandler(log, nil))}
}

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// idToken returns a JWT with claims. Its signature is not verified.
func idToken(claims string) string {
	b64 := base64.RawURLEncoding.EncodeToString
	return b64([]byte(`{"alg":"none"}`)) + "." + b64([]byte(claims)) + ".sig"
}

// ending is an access token that expires at a time.
func ending(at time.Time) Secret { return Secret(idToken(fmt.Sprintf(`{"exp":%d}`, at.Unix()))) }

// tokens are the tokens of acct-1.
func tokens(t testing.TB, access Secret) Tokens {
	t.Helper()
	id := Secret(idToken(`{"email":"a@b.test","https://api.openai.com/auth":{"chatgpt_account_id":"acct-1","chatgpt_account_is_fedramp":true}}`))
	claims, err := ParseIDClaims(id)
	if err != nil {
		t.Fatal(err)
	}
	return Tokens{IDToken: id, AccessToken: access, RefreshToken: "rt-1", AccountID: "acct-1", Claims: claims}
}

// stored returns a store that contains credentials.
func stored(t testing.TB, a *Auth) *fileStore {
	t.Helper()
	s := &fileStore{t.TempDir() + "/" + FileName}
	if a != nil {
		if err := s.Save(a); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// headers are the headers that a credential adds.
func headers(t *testing.T, c Credential) http.Header {
	t.Helper()
	h := http.Header{}
	if err := c.Authorize(t.Context(), h); err != nil {
		t.Fatal(err)
	}
	return h
}

// testAgentSeed is the seed of the test agent's key.
var testAgentSeed = []byte("an Ed25519 seed has 32 bytes ...")

func agentPrivateKey(t testing.TB) (ed25519.PrivateKey, string) {
	t.Helper()
	key := ed25519.NewKeyFromSeed(testAgentSeed)
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return key, base64.StdEncoding.EncodeToString(der)
}

// signer signs the JWTs of agents.
var signer = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// jwks is the key set of the signer.
func jwks(t testing.TB) string {
	t.Helper()
	key, err := signer()
	if err != nil {
		t.Fatal(err)
	}
	b64 := base64.RawURLEncoding.EncodeToString
	text, err := json.Marshal(map[string]any{"keys": []any{
		map[string]string{"kty": "EC", "kid": "other"},
		map[string]string{"kty": "RSA", "kid": "k1", "n": b64(key.N.Bytes()), "e": "AQAB"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// agentJWT returns the JWT of the test's agent, with changes. A nil value removes a claim.
func agentJWT(t testing.TB, header, changes map[string]any) string {
	t.Helper()
	_, private := agentPrivateKey(t)
	claims := jwt.MapClaims{
		"iss": agentIssuer, "aud": agentAudience, "iat": noon.Unix(), "exp": noon.Add(time.Hour).Unix(),
		"agent_runtime_id": "agent-rt-1", "agent_private_key": private, "account_id": "acct-9", "chatgpt_user_id": "user-9",
		"email": "a@b.test", "plan_type": "team", "chatgpt_account_is_fedramp": false,
	}
	for name, v := range changes {
		claims[name] = v
		if v == nil {
			delete(claims, name)
		}
	}
	token := jwt.NewWithClaims(jwt.SigningMethodRS256, claims)
	token.Header["kid"] = "k1"
	for name, v := range header {
		token.Header[name] = v
		if v == nil {
			delete(token.Header, name)
		}
	}
	key, err := signer()
	if err != nil {
		t.Fatal(err)
	}
	text, err := token.SignedString(key)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// ended is a context that has ended.
func ended(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}
