package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"path"
	"strings"
	"time"

	"codex.internal/pkg/internal/tokens"
)

// Role is the role that a token permits.
type Role string

// The roles.
const (
	RoleExecutor Role = "executor" // may register environments and validate
	RoleHarness  Role = "harness"  // may connect to them
	RoleBoth     Role = "both"
	// The following are the roles of a client with a ceiling. They may connect, and the executor
	// enforces the rest. A client with the role harness or both has the role admin.
	RoleRead  = Role(tokens.RoleRead)
	RoleRun   = Role(tokens.RoleRun)
	RoleAdmin = Role(tokens.RoleAdmin)
)

// allows reports whether a role includes another.
func (r Role) allows(other Role) bool {
	return r == RoleBoth || r == other || other == RoleHarness && r != RoleExecutor
}

// Ceiling bounds what a client may request from an executor. It is the same type as for the tokens
// of a port.
type Ceiling = tokens.Ceiling

// Token is the stored part of a token: everything except its secret.
type Token struct {
	tokens.Token
	Role Role `json:"role"`
	// Environments are ids of environments that the token permits, or patterns of path.Match, in
	// which * stands for any number of characters.
	Environments []string `json:"environments"`
	// Ceiling bounds a client with the role run or read.
	Ceiling
}

// permits reports whether the token permits a role in an environment at a time.
func (t *Token) permits(role Role, environment string, now time.Time) bool {
	return t.Role.allows(role) && !t.Expired(now) && t.covers(environment)
}

// grant returns the permissions of the token's holder as a client. The executor enforces them.
func (t *Token) grant() *tokens.Grant {
	role := tokens.RoleAdmin
	if t.Role == RoleRead || t.Role == RoleRun {
		role = tokens.Role(t.Role)
	}
	return &tokens.Grant{Token: t.ID, Name: t.Name, Role: role, Ceiling: t.Ceiling, Expires: t.Expires}
}

// access returns a digest of the permissions of the token's holder as a client, or "" if everything
// is permitted. A client cannot continue with one access what it has begun with another.
func (t *Token) access() string {
	g := t.grant()
	if !g.Limited() {
		return ""
	}
	text, _ := json.Marshal(g) // there is nothing in it that cannot be written
	return "." + tokens.Digest(string(text))[:16]
}

// accessOf returns the access in the identity of a harness.
func accessOf(identity string) string {
	if _, access, found := strings.Cut(identity, "."); found {
		return "." + access
	}
	return ""
}

// covers reports whether an environment is one of the token's.
func (t *Token) covers(environment string) bool {
	for _, pattern := range t.Environments {
		if ok, err := path.Match(pattern, environment); ok && err == nil {
			return true
		}
	}
	return false
}

// tokenPrefix is the beginning of the text of a token.
const tokenPrefix tokens.Prefix = "cxr_"

// TokenID returns the id in the text of a token, or "" if the text is not a token.
func TokenID(secret string) string { return tokenPrefix.ID(secret) }

// Check returns an InvalidError if a person has requested an invalid token, or has written one into
// the file.
func (t *Token) Check() error {
	switch t.Role {
	case RoleExecutor, RoleHarness, RoleBoth:
		if t.Ceiling != (Ceiling{}) {
			return invalid("role", "%s has no ceilings: give --role run or read, or leave out --cwd, --max-sandbox and the limits", t.Role)
		}
	case RoleRead, RoleRun, RoleAdmin:
		if err := tokens.CheckAccess(tokens.Role(t.Role), &t.Ceiling); err != nil {
			return err
		}
	default:
		return invalid("role", "%q: there are %s, %s and %s, and for clients %s, %s and %s", t.Role, RoleExecutor, RoleHarness, RoleBoth, RoleRead, RoleRun, RoleAdmin)
	}
	if len(t.Environments) == 0 {
		return invalid("environment", "is missing: name the environments that it permits; * stands for all")
	}
	if len(t.Environments) > maxPatterns {
		return invalid("environment", "is there %d times: at most %d, and patterns with *", len(t.Environments), maxPatterns)
	}
	for _, pattern := range t.Environments {
		if _, err := path.Match(pattern, ""); err != nil || checkEnvironmentID(pattern) != nil {
			return invalid("environment", "%q is neither an id nor a pattern: 1 to %d bytes that can be printed, without a slash or blanks around it",
				pattern, maxEnvironmentID)
		}
	}
	return nil
}

// checkEnvironmentID returns an error if a text cannot be the id of an environment. An id has 1 to
// maxEnvironmentID bytes of printable UTF-8, no slash, and no blanks around it.
func checkEnvironmentID(id string) error {
	if id == "" || len(id) > maxEnvironmentID || !tokens.Printable(id) || strings.Contains(id, "/") || strings.TrimSpace(id) != id {
		return fmt.Errorf("environment id %.*q: 1 to %d bytes that can be printed, without a slash or blanks around it", maxEnvironmentID, id, maxEnvironmentID)
	}
	return nil
}

// TokenFile is a file with tokens. A running service notices when another process changes the file.
// Its methods may be called from any goroutine.
type TokenFile struct {
	*tokens.File[Token, *Token]
}

// OpenTokens returns the token file at a path. If the file does not exist, it
// has no tokens.
func OpenTokens(path string) *TokenFile { return openTokens(path, time.Now) }

func openTokens(path string, now func() time.Time) *TokenFile {
	return &TokenFile{tokens.Open[Token](path, tokenPrefix, now)}
}

// TokenSpec describes a new token; see Token.
type TokenSpec struct {
	Name         string
	Role         Role
	Environments []string
	Ceiling      Ceiling
	TTL          time.Duration // 0: it does not expire
}

// Create creates a token and returns its text, which is not stored and cannot be recovered. The
// error is an InvalidError if the specification is not valid.
func (f *TokenFile) Create(ctx context.Context, spec TokenSpec) (string, Token, error) {
	return f.File.Create(ctx, Token{Token: tokens.Token{Name: spec.Name}, Role: spec.Role, Environments: spec.Environments, Ceiling: tokens.DefaultCeiling(tokens.Role(spec.Role), spec.Ceiling)}, spec.TTL)
}
