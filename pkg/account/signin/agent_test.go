package signin

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/nacl/box"
)

const (
	jwksGet  = "GET https://chatgpt.com/backend-api/wham/agent-identities/jwks"
	taskPost = "POST https://auth.openai.com/api/accounts/v1/agent/agent-rt-1/task/register"
)

// These are the signatures for the key and the clock of the tests. They were computed with another
// implementation.
const (
	taskSignature    = "W7042bOkPT8QEuT/ZTIY3B9jRe+8q0WIReH5mH9QLDT6YAteVzdNAYlXAkguyvS5NkcTiGBd0oh3alJ1PUWSCg=="
	requestAssertion = "eyJhZ2VudF9ydW50aW1lX2lkIjoiYWdlbnQtcnQtMSIsInNpZ25hdHVyZSI6IktEY2NyQ2piU29oUVY0aERaaVp3dEZzMXRBSGlmT1Z6LzVrR0YrQ2NGWVhOSGJGWWNaczNVbUI1czl4LzR1RWR4MEt0VW9VOStDb25BRnBoc01nbEJnPT0iLCJ0YXNrX2lkIjoidGFzay0xIiwidGltZXN0YW1wIjoiMjAyNi0xMS0yMFQxMjowMDowMFoifQ"
)

func TestAgent(t *testing.T) {
	s := newIdentityService(t)
	s.on(jwksGet, 200, jwks(t))
	s.on(taskPost, 200, `{"task_id":"task-1"}`)
	env := environment{"CODEX_ACCESS_TOKEN": " " + agentJWT(t, nil, nil), "CODEX_API_KEY": "is not looked at"}
	c, err := s.resolver(env, stored(t, nil), io.Discard).AgentRegistration(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	h := headers(t, c)
	if len(h) != 2 || h.Get("Chatgpt-Account-Id") != "acct-9" || h.Get("Authorization") != "AgentAssertion "+requestAssertion {
		t.Errorf("headers: %v", h)
	}
	asked := s.questions()
	if len(asked) != 2 {
		t.Fatalf("%d questions", len(asked))
	}
	if q := asked[1]; q.body != `{"timestamp":"2026-11-20T12:00:00Z","signature":"`+taskSignature+`"}` || q.header.Get("Authorization") != "" {
		t.Errorf("the task was registered with %s", q.body)
	}
}

// The signature is checked with the public key, to verify the constants above.
func TestAssertion(t *testing.T) {
	key, _ := agentPrivateKey(t)
	text, err := base64.RawURLEncoding.DecodeString(requestAssertion)
	if err != nil {
		t.Fatal(err)
	}
	var a map[string]string
	if err := json.Unmarshal(text, &a); err != nil {
		t.Fatal(err)
	}
	signature, err := base64.StdEncoding.DecodeString(a["signature"])
	if err != nil || !ed25519.Verify(key.Public().(ed25519.PublicKey), []byte("agent-rt-1:task-1:2026-11-20T12:00:00Z"), signature) {
		t.Errorf("the signature is wrong: %v", err)
	}
	if want := `{"agent_runtime_id":"agent-rt-1","signature":"` + a["signature"] + `","task_id":"task-1","timestamp":"2026-11-20T12:00:00Z"}`; string(text) != want {
		t.Errorf("got  %s\nwant %s", text, want)
	}
}

func TestAgentJWTs(t *testing.T) {
	type claims = map[string]any
	good := agentJWT(t, nil, nil)
	unsigned := good[:strings.LastIndex(good, ".")+1]
	payload := func(text string) string {
		return "e30." + base64.RawURLEncoding.EncodeToString([]byte(text)) + ".c2ln"
	}
	for name, tt := range map[string]struct{ token, want string }{
		"good":                           {good, ""},
		"without an email":               {agentJWT(t, nil, claims{"email": nil}), ""},
		"ended a minute ago, almost":     {agentJWT(t, nil, claims{"exp": noon.Unix() - 59}), ""},
		"ended more than a minute ago":   {agentJWT(t, nil, claims{"exp": noon.Unix() - 61}), "failed to verify agent identity JWT | ExpiredSignature"},
		"another issuer":                 {agentJWT(t, nil, claims{"iss": "https://chatgpt.com"}), "failed to verify agent identity JWT | InvalidIssuer"},
		"another audience":               {agentJWT(t, nil, claims{"aud": "codex"}), "failed to verify agent identity JWT | InvalidAudience"},
		"another signature":              {unsigned + "c2ln", "failed to verify agent identity JWT | InvalidSignature"},
		"another algorithm":              {agentJWT(t, claims{"alg": "HS256"}, nil), "failed to verify agent identity JWT | InvalidAlgorithm"},
		"no algorithm":                   {agentJWT(t, claims{"alg": "none"}, nil), "failed to verify agent identity JWT | InvalidAlgorithm"},
		"no kid":                         {agentJWT(t, claims{"kid": nil}, nil), "agent identity JWT header does not include a kid"},
		"another kid":                    {agentJWT(t, claims{"kid": "k2"}, nil), "agent identity JWT kid k2 is not trusted"},
		"the kid of another kind of key": {agentJWT(t, claims{"kid": "other"}, nil), "agent identity JWT kid other is not trusted"},
		"two parts":                      {"a.b", "invalid agent identity JWT format"},
		"an empty part":                  {"a.b.", "invalid agent identity JWT format"},
		"a personal access token":        {"at-5", "invalid agent identity JWT format"},
		"no base64url":                   {"a.+.c", "agent identity JWT payload is not valid base64url"},
		"no JSON":                        {payload("x"), "agent identity JWT payload is not valid JSON"},
		"a claim missing":                {payload(`{"agent_runtime_id":"a"}`), "agent identity JWT payload is not valid JSON"},
		"no issuer":                      {agentJWT(t, nil, claims{"iss": nil}), "agent identity JWT payload is not valid JSON"},
		"no audience":                    {agentJWT(t, nil, claims{"aud": nil}), "agent identity JWT payload is not valid JSON"},
		"no time of issue":               {agentJWT(t, nil, claims{"iat": nil}), "agent identity JWT payload is not valid JSON"},
		"never ends":                     {agentJWT(t, nil, claims{"exp": nil}), "agent identity JWT payload is not valid JSON"},
		"no side":                        {agentJWT(t, nil, claims{"chatgpt_account_is_fedramp": nil}), "agent identity JWT payload is not valid JSON"},
		"two audiences":                  {agentJWT(t, nil, claims{"aud": []string{agentAudience, "codex"}}), "agent identity JWT payload is not valid JSON"},
		"a time in words":                {agentJWT(t, nil, claims{"exp": "noon"}), "agent identity JWT payload is not valid JSON"},
		"half a second":                  {agentJWT(t, nil, claims{"iat": 1.5}), "agent identity JWT payload is not valid JSON"},
		"a private key that is none":     {agentJWT(t, nil, claims{"agent_private_key": "!"}), "stored agent identity private key is not valid base64"},
		"a private key of another kind":  {agentJWT(t, nil, claims{"agent_private_key": "YQ=="}), "stored agent identity private key is not valid PKCS#8"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			s.on(jwksGet, 200, jwks(t))
			s.on(taskPost, 200, `{"taskId":"task-1"}`)
			_, err := s.resolver(environment{"CODEX_ACCESS_TOKEN": tt.token}, stored(t, nil), io.Discard).AgentRegistration(t.Context())
			if withCause(err) != tt.want {
				t.Errorf("got %v, want %s", err, tt.want)
			}
		})
	}
}

func TestAgentKeySets(t *testing.T) {
	for name, tt := range map[string]struct {
		status     int
		body, want string
	}{
		"an error":        {500, "", "agent identity JWKS endpoint returned an error | HTTP status server error (500 Internal Server Error) for url (https://chatgpt.com/backend-api/wham/agent-identities/jwks)"},
		"a refusal":       {404, "", "agent identity JWKS endpoint returned an error | HTTP status client error (404 Not Found) for url"},
		"a redirect":      {302, "", "agent identity JWKS endpoint returned an error | HTTP status (302 Found) for url"},
		"no JSON":         {200, "x", "failed to decode agent identity JWKS | "},
		"no keys":         {200, "{}", "failed to decode agent identity JWKS | "},
		"a broken key":    {200, `{"keys":[{"kty":"RSA","kid":"k","n":"!","e":"AQAB"}]}`, "failed to decode agent identity JWKS | "},
		"a huge modulus":  {200, `{"keys":[{"kty":"RSA","kid":"k","n":"` + strings.Repeat("_", 1368) + `","e":"AQAB"}]}`, "failed to decode agent identity JWKS | "},
		"a huge exponent": {200, `{"keys":[{"kty":"RSA","kid":"k","n":"AQAB","e":"AQABAQAB"}]}`, "failed to decode agent identity JWKS | "},
	} {
		s := newIdentityService(t)
		s.on(jwksGet, tt.status, tt.body)
		if err := s.authority(nil).verifyAgentIdentity(t.Context(), Secret(agentJWT(t, nil, nil)), ""); !strings.HasPrefix(withCause(err), tt.want) {
			t.Errorf("%s: got error %v, want withCause(err) beginning with %q", name, err, tt.want)
		}
	}
	s := newIdentityService(t)
	s.server.Close()
	if err := s.authority(nil).verifyAgentIdentity(t.Context(), Secret(agentJWT(t, nil, nil)), ""); !strings.HasPrefix(withCause(err), "failed to request agent identity JWKS | ") {
		t.Errorf("nobody there: %v", err)
	}
}

func TestAgentServices(t *testing.T) {
	for base, want := range map[string]agentServices{
		"":                                      {"https://chatgpt.com/backend-api/wham/agent-identities/jwks", productionAuthAPI},
		"https://chatgpt.com/":                  {"https://chatgpt.com/agent-identities/jwks", productionAuthAPI},
		"https://chat.openai.com/codex":         {"https://chat.openai.com/codex/agent-identities/jwks", productionAuthAPI},
		"https://chatgpt.com/backend-api//":     {"https://chatgpt.com/backend-api/wham/agent-identities/jwks", productionAuthAPI},
		"https://chatgpt-staging.com":           {"https://chatgpt-staging.com/agent-identities/jwks", stagingAuthAPI},
		"https://chatgpt.com/backend-api/codex": {"https://chatgpt.com/backend-api/codex/wham/agent-identities/jwks", productionAuthAPI},
		"http://chatgpt.com":                    {},
		"https://chatgpt.com.evil.test":         {},
		"https://chatgpt.com/other":             {},
		"http://127.0.0.1":                      {},
	} {
		got, err := findAgentServices(base)
		if got != want || (err == nil) != (want != agentServices{}) {
			t.Errorf("%q: got %+v, error %v; want %+v", base, got, err, want)
		}
	}
}

func TestTasks(t *testing.T) {
	key, _ := agentPrivateKey(t)
	public, _, err := box.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	other, err := box.SealAnonymous(nil, []byte("task-2"), public, rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		status     int
		body, want string
		questions  int
	}{
		"an id":                     {200, `{"task_id":"task-1"}`, "", 1},
		"in the other spelling":     {201, `{"taskId":"task-1"}`, "", 1},
		"sealed":                    {200, `{"encrypted_task_id":"` + sealedTask + `"}`, "", 1},
		"sealed, other spelling":    {200, `{"encryptedTaskId":"` + sealedTask + `"}`, "", 1},
		"sealed for somebody else":  {200, `{"encrypted_task_id":"` + base64.StdEncoding.EncodeToString(other) + `"}`, "failed to decrypt encrypted task id", 1},
		"sealed, but not in base64": {200, `{"encrypted_task_id":"!"}`, "encrypted task id is not valid base64", 1},
		"none":                      {200, `{}`, "agent task registration response omitted task id", 1},
		"no JSON":                   {200, `x`, "failed to decode agent task registration response | invalid JSON at byte 1", 1},
		"refused":                   {400, "no\n", "agent task registration failed with status 400 Bad Request: no", 1},
		"refused at length":         {400, strings.Repeat("é", 513), "agent task registration failed with status 400 Bad Request: " + strings.Repeat("é", 512) + "...", 1},
		"broken":                    {500, "", "retryable agent identity registration failure: agent task registration failed with status 500 Internal Server Error", 3},
		"overloaded":                {429, "later", "retryable agent identity registration failure: agent task registration failed with status 429 Too Many Requests: later", 3},
	} {
		t.Run(name, func(t *testing.T) {
			s := newIdentityService(t)
			s.on(taskPost, tt.status, tt.body)
			a := s.authority(nil)
			g := &agent{record: agentRecord{RuntimeID: "agent-rt-1"}, key: key, now: a.now}
			id, err := a.registerTask(t.Context(), agentServices{authAPI: productionAuthAPI}, g)
			if withCause(err) != tt.want || err == nil && id != "task-1" {
				t.Errorf("got %q, %v", id, err)
			}
			if got := len(s.questions()); got != tt.questions {
				t.Errorf("%d questions", got)
			}
		})
	}
	s := newIdentityService(t)
	a := s.authority(nil)
	if _, err := a.registerTask(ended(t), agentServices{authAPI: productionAuthAPI}, &agent{key: key, now: a.now}); !errors.Is(err, context.Canceled) {
		t.Errorf("with a context that has ended: %v", err)
	}
	s.server.Close()
	_, err = a.registerTask(t.Context(), agentServices{authAPI: productionAuthAPI}, &agent{key: key, now: a.now})
	if !strings.HasPrefix(withCause(err), "retryable agent identity registration failure: failed to register agent task | Post ") {
		t.Errorf("with nobody there: %s", withCause(err))
	}
}

// sealedTask is task-1 in a sealed box for the test's agent, made by another
// implementation.
const sealedTask = "j0DFrbaPJWJK5bIU6nZ6bslNgp09e14a0bpvPiE4KF/i7mr9D0D+riYfuW0ofU5s8xZpgG8f"

// A stored agent is used unchanged. It is refused if the caller did not request an agent.
func TestStoredAgents(t *testing.T) {
	_, private := agentPrivateKey(t)
	record := func(task string) string {
		return `{"auth_mode":"agentIdentity","agent_identity":{"agent_runtime_id":"agent-rt-1","agent_private_key":"` + private +
			`","account_id":"acct-9","chatgpt_user_id":"u","email":"e","plan_type":"team","chatgpt_account_is_fedramp":true` + task + `}}`
	}
	jwt := func(changes map[string]any) string {
		file, err := NewAgentIdentity(Secret(agentJWT(t, nil, changes))).JSON()
		if err != nil {
			t.Fatal(err)
		}
		return string(file)
	}
	for name, tt := range map[string]struct {
		file      string
		questions int
		fedRAMP   string
	}{
		"a JWT":                     {jwt(nil), 2, ""},
		"a JWT of FedRAMP":          {jwt(map[string]any{"chatgpt_account_is_fedramp": true}), 2, "true"},
		"a record":                  {record(""), 1, "true"},
		"a record that has a task ": {record(`,"task_id":"task-1"`), 0, "true"},
	} {
		t.Run(name, func(t *testing.T) {
			a, err := ParseAuth([]byte(tt.file))
			if err != nil {
				t.Fatal(err)
			}
			s := newIdentityService(t)
			s.on(jwksGet, 200, jwks(t))
			s.on(taskPost, 200, `{"task_id":"task-1"}`)
			r := s.resolver(nil, stored(t, a), io.Discard)
			c, err := r.SignedIn(t.Context())
			if err != nil || c.Describe() != "Logged in using access token" {
				t.Fatalf("got %v, %v", c, err)
			}
			if got := len(s.questions()); got != tt.questions {
				t.Errorf("%d questions", got)
			}
			if h := headers(t, c); h.Get("Authorization") != "AgentAssertion "+requestAssertion || h.Get("X-Openai-Fedramp") != tt.fedRAMP {
				t.Errorf("headers: %v", h)
			}
			if _, err := r.Registration(t.Context(), "https://x"); !errors.Is(err, ErrAgentNotAsked) {
				t.Errorf("registration: %v", err)
			}
		})
	}
}

// FuzzAgentJWT makes the parsers read texts that a user may paste.
func FuzzAgentJWT(f *testing.F) {
	f.Add("a.e30.c")
	f.Add(agentJWT(f, nil, nil))
	f.Fuzz(func(t *testing.T, token string) {
		if r, err := decodeAgentJWT(Secret(token)); err == nil && (r.RuntimeID == "" || r.PrivateKey == "") {
			t.Errorf("%q is incomplete", token)
		}
		if err := (keySet{}).verify(Secret(token), func() time.Time { return noon }); err == nil {
			t.Errorf("%q was accepted with no key at all", token)
		}
	})
}

// FuzzKeySet makes the parser read arbitrary answers from the network.
func FuzzKeySet(f *testing.F) {
	f.Add([]byte(jwks(f)))
	f.Fuzz(func(t *testing.T, text []byte) {
		keys, err := parseKeySet(text)
		for id, key := range keys {
			if err != nil || id == "" || key.N == nil || key.E < 0 {
				t.Errorf("key %q: %v", id, err)
			}
		}
	})
}

// FuzzTask makes the parser read arbitrary answers from the network.
func FuzzTask(f *testing.F) {
	key, _ := agentPrivateKey(f)
	f.Add([]byte(`{"encrypted_task_id":"` + sealedTask + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		if id, err := taskID(text, key); (err == nil) != (id != "") {
			t.Errorf("id %q, %v", id, err)
		}
	})
}
