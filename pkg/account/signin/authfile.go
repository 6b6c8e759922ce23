package signin

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

// Mode is a kind of credentials, by its name in auth.json.
type Mode string

// ModeRendezvous is the mode of a token that is never stored.
const ModeRendezvous Mode = "rendezvous"

// The modes of auth.json.
const (
	ModeAPIKey              Mode = "apikey"
	ModeChatGPT             Mode = "chatgpt"
	ModeChatGPTAuthTokens   Mode = "chatgptAuthTokens"
	ModeAgentIdentity       Mode = "agentIdentity"
	ModePersonalAccessToken Mode = "personalAccessToken"
	ModeBedrockAPIKey       Mode = "bedrockApiKey"
)

var modes = []Mode{ModeAPIKey, ModeChatGPT, ModeChatGPTAuthTokens, ModeAgentIdentity, ModePersonalAccessToken, ModeBedrockAPIKey}

// The members of auth.json, in the order they are written.
const (
	memberMode          = "auth_mode"
	memberAPIKey        = "OPENAI_API_KEY"
	memberTokens        = "tokens"
	memberLastRefresh   = "last_refresh"
	memberAgentIdentity = "agent_identity"
	memberPAT           = "personal_access_token"
	memberBedrock       = "bedrock_api_key"
)

var members = []string{memberMode, memberAPIKey, memberTokens, memberLastRefresh, memberAgentIdentity, memberPAT, memberBedrock}

// Tokens are the tokens of a ChatGPT account.
type Tokens struct {
	secret.Unprinted
	IDToken      Secret
	AccessToken  Secret
	RefreshToken Secret
	AccountID    string // empty: unknown

	Claims IDClaims // of IDToken
}

// Auth is the content of auth.json. It does not change after its creation.
type Auth struct {
	secret.Unprinted
	Mode                Mode
	APIKey              Secret    // empty: none
	Tokens              *Tokens   // nil: none
	LastRefresh         time.Time // zero: unknown
	AgentIdentity       Secret    // JSON: the string of a JWT, or a record; empty: none
	PersonalAccessToken Secret    // empty: none

	doc *document
}

// NewAPIKey returns the Auth of an API key.
func NewAPIKey(key Secret) *Auth {
	doc := &document{}
	doc.setString(memberMode, string(ModeAPIKey), false)
	doc.setString(memberAPIKey, key.Reveal(), false)
	return &Auth{Mode: ModeAPIKey, APIKey: key, doc: doc}
}

// NewPersonalAccessToken returns the Auth of a personal access token.
func NewPersonalAccessToken(token Secret) *Auth {
	doc := &document{}
	doc.setString(memberAPIKey, "", true)
	doc.setString(memberPAT, token.Reveal(), false)
	return &Auth{Mode: ModePersonalAccessToken, PersonalAccessToken: token, doc: doc}
}

// NewAgentIdentity returns the Auth of an agent that a JWT names.
func NewAgentIdentity(token Secret) *Auth {
	doc := &document{}
	doc.setString(memberMode, string(ModeAgentIdentity), false)
	doc.setString(memberAPIKey, "", true)
	doc.setString(memberAgentIdentity, token.Reveal(), false)
	return &Auth{Mode: ModeAgentIdentity, AgentIdentity: Secret(encode(token.Reveal())), doc: doc}
}

// NewChatGPT returns the Auth of a ChatGPT account with tokens that were issued at a time, and an
// optional API key.
func NewChatGPT(tokens Tokens, apiKey Secret, now time.Time) *Auth {
	doc := &document{}
	doc.setString(memberMode, string(ModeChatGPT), false)
	doc.setString(memberAPIKey, apiKey.Reveal(), apiKey == "")
	a := &Auth{Mode: ModeChatGPT, APIKey: apiKey, doc: doc}
	return a.withTokens(tokens, now)
}

// withTokens returns a copy with other tokens, which were issued at a time.
func (a *Auth) withTokens(tokens Tokens, now time.Time) *Auth {
	b := *a
	b.Tokens, b.LastRefresh = &tokens, now.UTC()
	b.doc = a.doc.clone()
	inner := &document{}
	if old, err := parseDocument(a.doc.get(memberTokens)); err == nil {
		inner = old
	}
	inner.setString("id_token", tokens.IDToken.Reveal(), false)
	inner.setString("access_token", tokens.AccessToken.Reveal(), false)
	inner.setString("refresh_token", tokens.RefreshToken.Reveal(), false)
	inner.setString("account_id", tokens.AccountID, tokens.AccountID == "")
	text, _ := inner.MarshalJSON() // never fails
	b.doc.setRaw(memberTokens, text)
	b.doc.setString(memberLastRefresh, b.LastRefresh.Format(lastRefreshLayout), false)
	return &b
}

// lastRefreshLayout is RFC 3339 with nine digits, as Codex CLI writes it.
const lastRefreshLayout = "2006-01-02T15:04:05.000000000Z07:00"

// ParseAuth parses the contents of auth.json. Its errors contain nothing of the contents except
// names.
func ParseAuth(text []byte) (*Auth, error) {
	doc, err := parseDocument(text)
	if err != nil {
		return nil, plainJSON("", err)
	}
	a := &Auth{doc: doc}
	var mode, key, pat, last *string
	for name, to := range map[string]**string{memberMode: &mode, memberAPIKey: &key, memberPAT: &pat, memberLastRefresh: &last} {
		if v := doc.get(name); v != nil {
			if err := json.Unmarshal(v, to); err != nil {
				return nil, plainJSON(name, err)
			}
		}
	}
	a.APIKey, a.PersonalAccessToken = Secret(value(key)), Secret(value(pat))
	if last != nil {
		if a.LastRefresh, err = time.Parse(time.RFC3339, *last); err != nil {
			return nil, errors.New("last_refresh is not an RFC 3339 time")
		}
	}
	if v := doc.get(memberTokens); v != nil {
		if a.Tokens, err = parseTokens(v); err != nil {
			return nil, err
		}
	}
	a.AgentIdentity = Secret(doc.get(memberAgentIdentity))
	switch {
	case mode != nil && !slices.Contains(modes, Mode(*mode)):
		return nil, errors.New("auth_mode is unknown")
	case mode != nil:
		a.Mode = Mode(*mode)
	case pat != nil:
		a.Mode = ModePersonalAccessToken
	case doc.get(memberBedrock) != nil:
		a.Mode = ModeBedrockAPIKey
	case key != nil:
		a.Mode = ModeAPIKey
	default:
		a.Mode = ModeChatGPT
	}
	return a, nil
}

func parseTokens(text []byte) (*Tokens, error) {
	var t struct {
		IDToken      *string `json:"id_token"`
		AccessToken  *string `json:"access_token"`
		RefreshToken *string `json:"refresh_token"`
		AccountID    *string `json:"account_id"`
	}
	if err := jsonwire.Unmarshal(text, &t); err != nil {
		return nil, plainJSON(memberTokens, err)
	}
	for name, v := range map[string]*string{"id_token": t.IDToken, "access_token": t.AccessToken, "refresh_token": t.RefreshToken} {
		if v == nil {
			return nil, fmt.Errorf("tokens: missing field `%s`", name)
		}
	}
	claims, err := ParseIDClaims(Secret(*t.IDToken))
	if err != nil {
		return nil, fmt.Errorf("tokens: id_token: %w", err)
	}
	return &Tokens{
		IDToken: Secret(*t.IDToken), AccessToken: Secret(*t.AccessToken), RefreshToken: Secret(*t.RefreshToken),
		AccountID: value(t.AccountID), Claims: claims,
	}, nil
}

// plainJSON returns an error of encoding/json without the text that it contains, which could be a
// secret.
func plainJSON(name string, err error) error {
	var wrong *json.UnmarshalTypeError
	var syntax *json.SyntaxError
	switch {
	case errors.As(err, &wrong):
		if wrong.Field != "" {
			name += "." + wrong.Field
		}
		return fmt.Errorf("%s has the wrong type", name)
	case errors.As(err, &syntax):
		return fmt.Errorf("invalid JSON at byte %d", syntax.Offset)
	default:
		return errors.New("expected a JSON object and nothing after it")
	}
}

// JSON returns the contents of auth.json, with a line for each member and no newline at the end. It
// includes members that this program does not know.
func (a *Auth) JSON() ([]byte, error) { return a.doc.indented() }

// keeping returns a copy that also has those members of an older Auth that this program does not
// know.
func (a *Auth) keeping(old *Auth) *Auth {
	b := *a
	b.doc = a.doc.clone()
	for _, name := range old.doc.names {
		if _, there := b.doc.values[name]; !there && !slices.Contains(members, name) {
			b.doc.setRaw(name, old.doc.values[name])
		}
	}
	return &b
}
