// Package wsauth guards the listening port (docs/spec/wire.md §1.5): it
// checks the bearer token that a client sends with the HTTP request that is
// to become a websocket.
//
//	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.CapabilityToken, TokenFile: "/run/secrets/exec"})
//	…
//	if err := auth.Check(r); err != nil {
//		http.Error(w, err.Error(), http.StatusUnauthorized)
//		return
//	}
//
// There are two modes. With CapabilityToken there is one token, and every client that sends it
// may connect. The server needs only its SHA-256. Instead of the one token, there may be a file
// of tokens, each with a role and ceilings. With SignedBearerToken tokens are JWTs, signed with
// HS256 and a shared secret; they must expire, and can be bound to an issuer and an audience.
//
// No error and no String contains tokens or secrets.
package wsauth

import (
	"errors"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"codex.internal/pkg/internal/tokens"
)

// The errors of Check. Their texts are those of the protocol: the client gets them with status
// 401.
var (
	// ErrNoToken: the token to be revoked does not exist.
	ErrNoToken = tokens.ErrNoToken
	// ErrMissing: there is no Authorization header.
	ErrMissing = errors.New("missing websocket bearer token")
	// ErrHeader: the header is not `Bearer` and a token, or there are several headers.
	ErrHeader = errors.New("invalid authorization header")
	// ErrToken: the token is not the capability token.
	ErrToken = errors.New("invalid websocket bearer token")
	// ErrTokenExpired: the token is right, and has expired.
	ErrTokenExpired = errors.New("expired websocket bearer token")
	// ErrJWT: the token is not a JWT, or its signature or its claims are wrong.
	ErrJWT = errors.New("invalid websocket jwt")
	// ErrExpired: the claim exp has passed.
	ErrExpired = errors.New("expired websocket jwt")
	// ErrNotYet: the claim nbf is in the future.
	ErrNotYet = errors.New("websocket jwt is not valid yet")
	// ErrWrongIssuer: the claim iss is not Config.Issuer.
	ErrWrongIssuer = errors.New("websocket jwt issuer mismatch")
	// ErrTokenFile: the file of tokens cannot be read.
	ErrTokenFile = errors.New("the server cannot read its tokens; codex exec-server token list says why")
	// ErrRevoked: the token of a client was valid, but the file has changed or no longer has
	// it.
	ErrRevoked = errors.New("the token was revoked or changed")
	// ErrEnded: the token of a client was valid, and has expired.
	ErrEnded = errors.New("the token has expired")
	// ErrWrongAudience: the claim aud does not contain Config.Audience.
	ErrWrongAudience = errors.New("websocket jwt audience mismatch")
)

// NextEnd returns when the next token of the file expires; zero: none does, or the file cannot be read.
func (a *Authenticator) NextEnd() time.Time {
	if a == nil || a.tokens == nil {
		return time.Time{}
	}
	return a.tokens.NextEnd(nil)
}

// Authenticator checks requests. New makes one. Its methods may be called from any goroutine.
type Authenticator struct {
	mode string

	// capability is the capability token.
	capability *capability

	// tokens are the tokens with roles, instead of capability; nil: there are none.
	tokens *TokenFile

	// The other fields are for signed tokens.
	secret   *secretFile
	parser   *jwt.Parser
	now      func() time.Time
	skew     time.Duration
	issuer   string // empty: any issuer
	audience string // empty: any audience
}

// String returns the mode, and no secret.
func (a *Authenticator) String() string { return "wsauth " + a.mode }

// Check returns nil when a request carries a valid token, else one of the
// errors above. It reads nothing but the Authorization header, and compares
// tokens and signatures in constant time.
func (a *Authenticator) Check(r *http.Request) error {
	_, err := a.Authenticate(r)
	return err
}

// Authenticate is Check, but also returns what the client may do. All clients with the
// capability token have the same principal. All JWTs with the same issuer and subject have the
// same principal, so that a new token can replace one that expires. For a token with a role,
// the principal is the token's.
func (a *Authenticator) Authenticate(r *http.Request) (Grant, error) {
	token, err := bearerToken(r.Header.Values("Authorization"))
	if err != nil {
		return Grant{}, err
	}
	if a.mode == SignedBearerToken {
		return a.checkSigned(token)
	}
	if a.tokens != nil {
		return a.tokens.authenticate(token)
	}
	return a.capability.authenticate(token)
}
