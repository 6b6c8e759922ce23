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

// Roles and Sandboxes are all that there are.
var Roles, Sandboxes = tokens.Roles, tokens.Sandboxes

// Limits that a file holds are those of the protocol.
var _ = execproto.ProcessLimits(Limits{})

// Token is what is kept of a token with a role: everything but its secret.
type Token struct {
	tokens.Token
	Role Role `json:"role"`
	// Principal owns the detached processes; "": the token itself. Tokens of one
	// principal see the same ones.
	Principal string `json:"principal,omitempty"`
	Ceiling
}

// Check returns what is wrong with a token that a person has asked for or
// written into the file; it is a tokens.InvalidError.
func (t *Token) Check() error {
	if len(t.Principal) > tokens.MaxName || !tokens.Printable(t.Principal) || strings.TrimSpace(t.Principal) != t.Principal {
		return tokens.Invalid("principal", "%.*q: at most %d bytes that can be printed, without blanks around them", tokens.MaxName, t.Principal, tokens.MaxName)
	}
	return tokens.CheckAccess(t.Role, &t.Ceiling)
}

// tokenPrefix begins the text of a token.
const tokenPrefix tokens.Prefix = "cxe_"

// TokenID returns the id in the text of a token; empty: it is none.
func TokenID(secret string) string { return tokenPrefix.ID(secret) }

// InvalidError reports that a token cannot have what its specification requests.
type InvalidError = tokens.InvalidError

// TokenFile is a file with tokens that have roles. A running server notices what another
// process changes in it. Its methods may be called from any goroutine.
type TokenFile struct {
	*tokens.File[Token, *Token]
	now func() time.Time
}

// OpenTokens returns the token file at a path. It need not be there yet: then
// it has no tokens.
func OpenTokens(path string) *TokenFile { return openTokens(path, time.Now) }

func openTokens(path string, now func() time.Time) *TokenFile {
	return &TokenFile{tokens.Open[Token](path, tokenPrefix, now), now}
}

// TokenSpec is what a new token is for; see Token.
type TokenSpec struct {
	Name, Principal string
	Role            Role
	Ceiling         Ceiling
	TTL             time.Duration // 0: it does not expire
}

// Create makes a token and returns its text, which is not kept and cannot be had again. The
// error is an InvalidError if there can be no such token. See tokens.DefaultCeiling.
func (f *TokenFile) Create(ctx context.Context, spec TokenSpec) (string, Token, error) {
	t := Token{Token: tokens.Token{Name: spec.Name}, Role: spec.Role, Principal: spec.Principal, Ceiling: tokens.DefaultCeiling(spec.Role, spec.Ceiling)}
	return f.File.Create(ctx, t, spec.TTL)
}

// Grant is what an authenticated client may do.
type Grant struct {
	// Principal names the client's user, certificate or token, in the audit trail and for limits.
	Principal string
	// Owner is whom sessions and detached processes belong to; "": Principal.
	Owner string
	// Token is the id of the token; "": the client has none from a file.
	Token   string
	Role    Role
	Ceiling Ceiling
	Expires time.Time // zero: never
	// Renewable says that the client can come back with another token of the same principal, as with
	// a JWT that is signed anew: its session waits for that.
	Renewable bool

	check func() error // nil: the grant does not end
}

// Unlimited returns the grant of a client that may do everything, and that does not end.
func Unlimited(principal string) Grant { return Grant{Principal: principal, Role: RoleAdmin} }

// Relayed returns the grant of a client behind a rendezvous service, which has told what the client's token
// permits. The owner is named by the client's key, whatever is said about the token (docs/spec/relay.md §6.1).
func Relayed(g *tokens.Grant, owner string) Grant {
	grant := Grant{Principal: "token " + cmp.Or(g.Name, g.Token), Owner: owner, Role: g.Role, Ceiling: g.Ceiling, Expires: g.Expires}
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

// Same reports whether a client with this grant may continue what one with another grant has begun.
func (g *Grant) Same(other *Grant) bool {
	return g.OwnerOf() == other.OwnerOf() && g.Token == other.Token && g.Role == other.Role && g.Ceiling == other.Ceiling
}

// OwnerOf returns whom sessions and detached processes belong to.
func (g *Grant) OwnerOf() string { return cmp.Or(g.Owner, g.Principal) }

// Ends reports whether the grant can end, so that Check has to be called again.
func (g *Grant) Ends() bool { return g.check != nil }

// Check returns nil as long as the grant is good: ErrEnded if its time is over, ErrRevoked if its token was
// revoked or permits something else by now, or cannot be looked up. Scenario: an operator
// lowers the ceiling of a token in the file while its client is connected.
func (g *Grant) Check() error {
	if g.check == nil {
		return nil
	}
	return g.check()
}

// authenticate returns the grant of a token in the file.
func (f *TokenFile) authenticate(secret string) (Grant, error) {
	t, err := f.Authenticate(secret)
	switch {
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
	principal := "token " + t.ID
	if t.Principal != "" {
		principal = "principal " + t.Principal
	}
	return Grant{Principal: principal, Token: t.ID, Role: t.Role, Ceiling: t.Ceiling, Expires: t.Expires}
}

// check is Grant.Check for a grant whose token has a digest.
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
