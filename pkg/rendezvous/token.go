package rendezvous

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"path"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Role is what the holder of a token may be.
type Role string

// The roles.
const (
	RoleExecutor Role = "executor" // may register environments and validate
	RoleHarness  Role = "harness"  // may connect to them
	RoleBoth     Role = "both"
)

// allows says whether a role includes another.
func (r Role) allows(other Role) bool { return r == RoleBoth || r == other }

// Token is what is kept of a token: everything but its secret.
type Token struct {
	ID   string `json:"id"`             // 12 hexadecimal digits
	Name string `json:"name,omitempty"` // for people
	Role Role   `json:"role"`
	// Environments are the ids that it is good for, or patterns of path.Match,
	// in which * stands for any number of characters.
	Environments []string  `json:"environments"`
	Created      time.Time `json:"created"`
	Expires      time.Time `json:"expires,omitzero"` // zero: never
	SHA256       string    `json:"sha256"`           // of the whole token, in hexadecimal digits
}

// permits says whether the token is good for a role in an environment at a
// time.
func (t *Token) permits(role Role, environment string, now time.Time) bool {
	return t.Role.allows(role) && !t.expired(now) && t.covers(environment)
}

// covers says whether an environment is one of the token's.
func (t *Token) covers(environment string) bool {
	for _, pattern := range t.Environments {
		if ok, err := path.Match(pattern, environment); ok && err == nil {
			return true
		}
	}
	return false
}

func (t *Token) expired(now time.Time) bool { return !t.Expires.IsZero() && !now.Before(t.Expires) }

// matches says whether a secret is the token's. Comparing digests takes the
// same time wherever they differ.
func (t *Token) matches(secret string) bool {
	digest := hexDigest(secret)
	return subtle.ConstantTimeCompare([]byte(digest), []byte(t.SHA256)) == 1
}

func hexDigest(s string) string {
	digest := sha256.Sum256([]byte(s))
	return hex.EncodeToString(digest[:])
}

// The text of a token is tokenPrefix, its id, a line and its secret part: its
// owner can tell what it is for and which it is.
const (
	tokenPrefix  = "cxr_"
	tokenIDBytes = 6
	secretBytes  = 32 // more than can be guessed, so a plain digest protects it
)

// newSecret makes the text of a new token.
func newSecret() (id, secret string) {
	random := make([]byte, tokenIDBytes+secretBytes)
	_, _ = rand.Read(random) // never fails
	id = hex.EncodeToString(random[:tokenIDBytes])
	return id, tokenPrefix + id + "_" + base64.RawURLEncoding.EncodeToString(random[tokenIDBytes:])
}

// TokenID returns the id in the text of a token; empty: it is none.
func TokenID(secret string) string {
	rest, ok := strings.CutPrefix(secret, tokenPrefix)
	id, _, found := strings.Cut(rest, "_")
	if !ok || !found || len(secret) > maxTokenBytes || !isTokenID(id) {
		return ""
	}
	return id
}

func isTokenID(id string) bool {
	b, err := hex.DecodeString(id)
	return err == nil && len(b) == tokenIDBytes && strings.ToLower(id) == id
}

// check says what is wrong with a token that a person has asked for or
// written into the file; it is an InvalidError.
func (t *Token) check() error {
	switch t.Role {
	case RoleExecutor, RoleHarness, RoleBoth:
	default:
		return invalid("role", "%q: there are %s, %s and %s", t.Role, RoleExecutor, RoleHarness, RoleBoth)
	}
	if len(t.Name) > maxTokenName || !printable(t.Name) {
		return invalid("name", "%.*q: at most %d bytes that can be printed", maxTokenName, t.Name, maxTokenName)
	}
	if len(t.Environments) == 0 {
		return invalid("environment", "is missing: name those it is good for; * stands for all")
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

// checkEnvironmentID says whether a text can be the id of an environment: it
// has 1 to maxEnvironmentID bytes of UTF-8 that can be printed, no slash, and no
// blanks around it.
func checkEnvironmentID(id string) error {
	if id == "" || len(id) > maxEnvironmentID || !printable(id) || strings.Contains(id, "/") || strings.TrimSpace(id) != id {
		return fmt.Errorf("environment id %.*q: 1 to %d bytes that can be printed, without a slash or blanks around it", maxEnvironmentID, id, maxEnvironmentID)
	}
	return nil
}

func printable(s string) bool {
	for _, c := range s {
		if !unicode.IsPrint(c) {
			return false
		}
	}
	return utf8.ValidString(s)
}

// tokensDocument is the token file.
type tokensDocument struct {
	Version int      `json:"version"`
	Tokens  []*Token `json:"tokens"`
}

// tokensVersion is that of the file.
const tokensVersion = 1

// decodeTokens reads the content of a token file. An unknown member is an error: it
// could be a restriction.
func decodeTokens(data []byte) (map[string]*Token, error) {
	var doc tokensDocument
	if err := decodeDocument(data, &doc); err != nil {
		return nil, err
	}
	if doc.Version != tokensVersion {
		return nil, fmt.Errorf("version %d of the file; this program knows %d", doc.Version, tokensVersion)
	}
	if len(doc.Tokens) > maxTokens {
		return nil, fmt.Errorf("%d tokens, more than %d", len(doc.Tokens), maxTokens)
	}
	tokens := make(map[string]*Token, len(doc.Tokens))
	for i, t := range doc.Tokens {
		if t == nil || !isTokenID(t.ID) {
			return nil, fmt.Errorf("token %d of the file has no valid id", i)
		}
		if digest, err := hex.DecodeString(t.SHA256); err != nil || len(digest) != sha256.Size || strings.ToLower(t.SHA256) != t.SHA256 {
			return nil, fmt.Errorf("token %s: sha256 must be %d hexadecimal digits", t.ID, 2*sha256.Size)
		}
		if err := t.check(); err != nil {
			return nil, fmt.Errorf("token %s: %w", t.ID, err)
		}
		if tokens[t.ID] != nil {
			return nil, fmt.Errorf("token %s is in the file twice", t.ID)
		}
		tokens[t.ID] = t
	}
	return tokens, nil
}
