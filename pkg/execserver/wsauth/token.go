package wsauth

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/internal/tokens"
)

// Roles and ceilings are the same at a port and through a registry.
type (
	Role    = tokens.Role
	Sandbox = tokens.Sandbox
	Limits  = tokens.Limits
	Ceiling = tokens.Ceiling
)

// The roles. Each includes the ones before it.
const (
	RoleRead  = tokens.RoleRead
	RoleRun   = tokens.RoleRun
	RoleAdmin = tokens.RoleAdmin
)

// The sandboxes of ceilings.
const (
	SandboxNone           = tokens.SandboxNone
	SandboxWorkspaceWrite = tokens.SandboxWorkspaceWrite
	SandboxReadOnly       = tokens.SandboxReadOnly
)

// Roles and Sandboxes have all valid values.
var Roles, Sandboxes = tokens.Roles, tokens.Sandboxes

// The limits in a token file are those of the protocol.
var _ = execproto.ProcessLimits(Limits{})

// Token is the stored form of a token with a role. It does not have the secret.
type Token struct {
	tokens.Token
	Role Role `json:"role"`
	// Principal owns detached processes; "": the token itself owns them. Tokens with the same
	// principal see the same processes.
	Principal string `json:"principal,omitempty"`
	Ceiling
}

// Check returns the error of a token that a person has requested or written into the file; it
// is a tokens.InvalidError.
func (t *Token) Check() error {
	if len(t.Principal) > tokens.MaxName || !tokens.Printable(t.Principal) || strings.TrimSpace(t.Principal) != t.Principal {
		return tokens.Invalid("principal", "%.*q: at most %d bytes that can be printed, without blanks around them", tokens.MaxName, t.Principal, tokens.MaxName)
	}
	return tokens.CheckAccess(t.Role, &t.Ceiling)
}

// tokenPrefix begins the text of a token.
const tokenPrefix tokens.Prefix = "cxe_"

// TokenID returns the id in the text of a token; empty: the text is not a token.
func TokenID(secret string) string { return tokenPrefix.ID(secret) }

// InvalidError means that a requested token is not permitted.
type InvalidError = tokens.InvalidError

// TokenFile is a file of tokens with roles. A running server notices when another process
// changes the file. Its methods may be called from any goroutine.
type TokenFile struct {
	*tokens.File[Token, *Token]
	now func() time.Time
}

// OpenTokens returns the token file at a path. A file that does not exist has no tokens.
func OpenTokens(path string) *TokenFile { return openTokens(path, time.Now) }

func openTokens(path string, now func() time.Time) *TokenFile {
	return &TokenFile{tokens.Open[Token](path, tokenPrefix, now), now}
}

// TokenSpec describes a new token; see Token.
type TokenSpec struct {
	Name, Principal string
	Role            Role
	Ceiling         Ceiling
	TTL             time.Duration // 0: the token does not expire
}

// Create makes a token and returns its text. The text is not stored, and cannot be retrieved
// later. If the spec is invalid, the error is an InvalidError. See tokens.DefaultCeiling.
func (f *TokenFile) Create(ctx context.Context, spec TokenSpec) (string, Token, error) {
	t := Token{Token: tokens.Token{Name: spec.Name}, Role: spec.Role, Principal: spec.Principal, Ceiling: tokens.DefaultCeiling(spec.Role, spec.Ceiling)}
	return f.File.Create(ctx, t, spec.TTL)
}

// Grant is what an authenticated client may do.
type Grant struct {
	// Principal names the client's user, certificate or token, in the audit trail and for limits.
	Principal string
	// Owner owns the client's sessions and detached processes; "": Principal does.
	Owner string
	// Token is the id of the token; "": the client has no token from a file.
	Token   string
	Role    Role
	Ceiling Ceiling
	Expires time.Time // zero: never
	// Renewable means that the client can return with another token of the same principal, such
	// as a renewed JWT. Its session waits for that.
	Renewable bool

	check func() error // nil: the grant never ends
}

// namedToken begins the principal of a client with a token that has an id.
const namedToken = "token "

// Unlimited returns a grant that permits everything and never ends.
func Unlimited(principal string) Grant { return Grant{Principal: principal, Role: RoleAdmin} }

// Relayed returns the grant of a client behind a rendezvous service, which has reported what
// the client's token permits. The client's key determines the owner, whatever the service
// reports about the token (docs/spec/relay.md §6.1).
func Relayed(g *tokens.Grant, owner string) Grant {
	grant := Grant{Principal: namedToken + cmp.Or(g.Name, g.Token), Owner: owner, Role: g.Role, Ceiling: g.Ceiling, Expires: g.Expires}
	if g.Limited() {
		grant.Token = g.Token // another token of the client may permit more
	}
	if !g.Expires.IsZero() {
		grant.check = func() error {
			if time.Now().Before(g.Expires) {
				return nil
			}
			return ErrEnded
		}
	}
	return grant
}

// Same reports whether a client with this grant may continue the work of a client with another
// grant.
func (g *Grant) Same(other *Grant) bool {
	return g.OwnerOf() == other.OwnerOf() && g.Token == other.Token && g.Role == other.Role && g.Ceiling == other.Ceiling
}

// OwnerOf returns the owner of the client's sessions and detached processes.
func (g *Grant) OwnerOf() string { return cmp.Or(g.Owner, g.Principal) }

// Name returns the name of the client for logs, lists and metrics.
func (g *Grant) Name() string { return cmp.Or(g.Principal, g.Owner) }

// Ends reports whether the grant can end: the caller must then repeat Check.
func (g *Grant) Ends() bool { return g.check != nil }

// Check returns nil while the grant is valid. It returns ErrEnded if the grant has expired. It
// returns ErrRevoked if the token was revoked, now permits something else, or cannot be looked
// up. Scenario: an operator lowers the ceiling of a token in the file while its client is
// connected.
func (g *Grant) Check() error {
	if g.check == nil {
		return nil
	}
	return g.check()
}

// authenticate returns the grant of a token in the file. With ErrTokenExpired, the grant has only the principal.
func (f *TokenFile) authenticate(secret string) (Grant, error) {
	t, err := f.Authenticate(secret)
	switch {
	case errors.Is(err, tokens.ErrExpired):
		return Grant{Principal: namedToken + TokenID(secret)}, ErrTokenExpired
	case errors.Is(err, tokens.ErrBadToken):
		return Grant{}, ErrToken
	case err != nil:
		return Grant{}, ErrTokenFile
	}
	grant := t.grant()
	grant.check = func() error { return f.check(&grant, t.SHA256) }
	return grant, nil
}

// grant returns what the holder of the token may do.
func (t *Token) grant() Grant {
	principal := namedToken + t.ID
	if t.Principal != "" {
		principal = "principal " + t.Principal
	}
	return Grant{Principal: principal, Token: t.ID, Role: t.Role, Ceiling: t.Ceiling, Expires: t.Expires}
}

// check is Grant.Check for a grant of a token with that digest.
func (f *TokenFile) check(g *Grant, digest string) error {
	t, err := f.Find(g.Token)
	if err != nil {
		if !g.Expires.IsZero() && !f.now().Before(g.Expires) {
			return ErrEnded
		}
		return ErrRevoked
	}
	if now := t.grant(); t.SHA256 != digest || now.Principal != g.Principal || now.Role != g.Role || now.Ceiling != g.Ceiling {
		return ErrRevoked
	}
	return nil
}
