package signin

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

// These are the services that support agents.
const (
	productionAuthAPI = "https://auth.openai.com/api/accounts"
	stagingAuthAPI    = "https://auth.api.openai.org/api/accounts"
	defaultChatGPT    = "https://chatgpt.com/backend-api"
)

// errAgentEnvironment is the error for a ChatGPT environment without agents.
var errAgentEnvironment = errors.New("Agent Identity only supports production and staging ChatGPT environments") //lint:ignore ST1005 Codex CLI's text

// agentServices are the URLs of the services that know agents.
type agentServices struct {
	jwks    string // the URL of the keys that sign agents' JWTs
	authAPI string // the base URL of where tasks are registered
}

// findAgentServices returns the services for the URL of ChatGPT's backend; empty: the public one.
func findAgentServices(base string) (agentServices, error) {
	if base == "" {
		base = defaultChatGPT
	}
	base = strings.TrimRight(base, "/")
	for host, authAPI := range map[string]string{
		"https://chatgpt.com": productionAuthAPI, "https://chat.openai.com": productionAuthAPI,
		"https://chatgpt-staging.com": stagingAuthAPI,
	} {
		path, ok := strings.CutPrefix(base, host)
		if !ok || !slices.Contains([]string{"", "/backend-api", "/codex", "/backend-api/codex"}, path) {
			continue
		}
		jwks := base + "/agent-identities/jwks"
		if strings.Contains(base, "/backend-api") {
			jwks = base + "/wham/agent-identities/jwks"
		}
		return agentServices{jwks, authAPI}, nil
	}
	return agentServices{}, errAgentEnvironment
}

// agentRecord is the identity of an agent, from its JWT or from auth.json.
type agentRecord struct {
	secret.Unprinted
	RuntimeID  string `json:"agent_runtime_id"`
	PrivateKey Secret `json:"agent_private_key"`
	AccountID  string `json:"account_id"`
	UserID     string `json:"chatgpt_user_id"`
	Email      string `json:"email"` // empty: not in the token
	PlanType   string `json:"plan_type"`
	FedRAMP    bool   `json:"chatgpt_account_is_fedramp"`
	TaskID     string `json:"task_id"` // empty: none is registered
}

// complete reports whether all required fields are present.
func (r *agentRecord) complete() bool {
	return r.RuntimeID != "" && r.PrivateKey != "" && r.AccountID != "" && r.UserID != "" && r.PlanType != ""
}

// agentClaims are the claims of an agent's JWT. All except the email are
// required.
type agentClaims struct {
	agentRecord
	Issuer   *string `json:"iss"`
	Audience *string `json:"aud"`
	IssuedAt *uint64 `json:"iat"`
	Expires  *uint64 `json:"exp"`
	FedRAMP  *bool   `json:"chatgpt_account_is_fedramp"`
}

func (c *agentClaims) complete() bool {
	return c.agentRecord.complete() && c.Issuer != nil && c.Audience != nil && c.IssuedAt != nil && c.Expires != nil && c.FedRAMP != nil
}

// decodeAgentJWT decodes an agent's JWT without verifying it.
func decodeAgentJWT(token Secret) (*agentRecord, error) {
	parts := strings.Split(token.Reveal(), ".")
	if len(parts) != 3 || slices.Contains(parts, "") {
		return nil, errors.New("invalid agent identity JWT format")
	}
	text, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return nil, errors.New("agent identity JWT payload is not valid base64url")
	}
	var c agentClaims
	if jsonwire.Unmarshal(text, &c) != nil || !c.complete() {
		return nil, errors.New("agent identity JWT payload is not valid JSON")
	}
	c.agentRecord.FedRAMP = *c.FedRAMP
	return &c.agentRecord, nil
}

// agentKey is the key with which an agent signs.
func agentKey(text Secret) (ed25519.PrivateKey, error) {
	der, err := base64.StdEncoding.DecodeString(text.Reveal())
	if err != nil {
		return nil, errors.New("stored agent identity private key is not valid base64")
	}
	defer clear(der)
	parsed, err := x509.ParsePKCS8PrivateKey(der)
	if err == nil {
		if key, ok := parsed.(ed25519.PrivateKey); ok {
			return key, nil
		}
	}
	return nil, errors.New("stored agent identity private key is not valid PKCS#8")
}

// agent is the credential of an agent identity. It signs each request with its key, on behalf of a
// task that is registered once.
type agent struct {
	secret.Unprinted
	record agentRecord
	key    ed25519.PrivateKey
	taskID string
	now    func() time.Time
}

// agentFromJWT verifies an agent's JWT and registers a task.
func (a *Authority) agentFromJWT(ctx context.Context, token Secret, chatGPTBaseURL string) (*agent, error) {
	services, err := findAgentServices(chatGPTBaseURL)
	if err != nil {
		return nil, err
	}
	if err := a.verifyAgent(ctx, token, services); err != nil {
		return nil, err
	}
	record, err := decodeAgentJWT(token)
	if err != nil {
		return nil, err
	}
	return a.newAgent(ctx, *record, services)
}

// verifyAgentIdentity checks that an agent's JWT is well-formed and that ChatGPT has signed it.
// chatGPTBaseURL is ChatGPT's base URL; empty: the public one.
func (a *Authority) verifyAgentIdentity(ctx context.Context, token Secret, chatGPTBaseURL string) error {
	services, err := findAgentServices(chatGPTBaseURL)
	if err != nil {
		return err
	}
	return a.verifyAgent(ctx, token, services)
}

func (a *Authority) verifyAgent(ctx context.Context, token Secret, services agentServices) error {
	if _, err := decodeAgentJWT(token); err != nil {
		return err
	}
	keys, err := a.agentKeys(ctx, services.jwks)
	if err != nil {
		return err
	}
	return keys.verify(token, a.now)
}

// agentFromStore makes an agent from auth.json, which has a JWT or a record.
func (a *Authority) agentFromStore(ctx context.Context, stored Secret, chatGPTBaseURL string) (*agent, error) {
	var token string
	if json.Unmarshal([]byte(stored.Reveal()), &token) == nil && token != "" {
		return a.agentFromJWT(ctx, Secret(token), chatGPTBaseURL)
	}
	var record agentRecord
	if jsonwire.Unmarshal([]byte(stored.Reveal()), &record) != nil || !record.complete() {
		return nil, errors.New("agent_identity is neither a JWT nor a record")
	}
	services, err := findAgentServices(chatGPTBaseURL)
	if err != nil {
		return nil, err
	}
	return a.newAgent(ctx, record, services)
}

// newAgent makes an agent. If it has no task, newAgent registers one.
func (a *Authority) newAgent(ctx context.Context, record agentRecord, services agentServices) (*agent, error) {
	key, err := agentKey(record.PrivateKey)
	if err != nil {
		return nil, err
	}
	g := &agent{record: record, key: key, taskID: record.TaskID, now: a.now}
	if g.taskID == "" {
		g.taskID, err = a.registerTask(ctx, services, g)
	}
	return g, err
}

func (*agent) Mode() Mode       { return ModeAgentIdentity }
func (*agent) Describe() string { return "Logged in using access token" }

// Authorize adds a signature of the time of the request.
func (g *agent) Authorize(_ context.Context, header http.Header) error {
	setHeaders(header, "AgentAssertion "+g.assertion(), g.record.AccountID, g.record.FedRAMP)
	return nil
}

// assertion returns a text that proves that its sender currently has the key and works on the task.
func (g *agent) assertion() string {
	at := g.timestamp()
	return base64.RawURLEncoding.EncodeToString(encode(struct {
		RuntimeID string `json:"agent_runtime_id"`
		Signature string `json:"signature"`
		TaskID    string `json:"task_id"`
		Timestamp string `json:"timestamp"`
	}{g.record.RuntimeID, g.sign(g.record.RuntimeID, g.taskID, at), g.taskID, at}))
}

// timestamp is the time in whole seconds.
func (g *agent) timestamp() string { return g.now().UTC().Format("2006-01-02T15:04:05Z") }

// sign signs the parts, joined by colons.
func (g *agent) sign(parts ...string) string {
	return base64.StdEncoding.EncodeToString(ed25519.Sign(g.key, []byte(strings.Join(parts, ":"))))
}
