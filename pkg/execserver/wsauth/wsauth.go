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
// There are two modes. With CapabilityToken every client that sends the one token
// may connect; the server needs only its SHA-256. In place of the one token there may be a
// file of tokens, each with a role and ceilings. With SignedBearerToken tokens are
// JWTs, signed with HS256 and a shared secret; they must expire, and can be
// bound to an issuer and an audience.
//
// Tokens and secrets appear in no error and no String.
package wsauth

import (
	"errors"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"codex.internal/pkg/internal/tokens"
)

// The refusals of Check. Their texts are the protocol's: the client gets them
// with status 401.
var (
	// ErrNoToken: there is no token with the id that is to be revoked.
	ErrNoToken = tokens.ErrNoToken
	// ErrMissing: there is no Authorization header.
	ErrMissing = errors.New("missing websocket bearer token")
	// ErrHeader: the header is not `Bearer` and a token, or there are two.
	ErrHeader = errors.New("invalid authorization header")
	// ErrToken: it is not the capability token.
	ErrToken = errors.New("invalid websocket bearer token")
	// ErrJWT: it is no JWT, its signature is wrong, or its claims are.
	ErrJWT = errors.New("invalid websocket jwt")
	// ErrExpired: its exp has passed.
	ErrExpired = errors.New("expired websocket jwt")
	// ErrNotYet: its nbf has not come.
	ErrNotYet = errors.New("websocket jwt is not valid yet")
	// ErrWrongIssuer: its iss is not Config.Issuer.
	ErrWrongIssuer = errors.New("websocket jwt issuer mismatch")
	// ErrTokenFile: the file of tokens cannot be read.
	ErrTokenFile = errors.New("the server cannot read its tokens; codex exec-server token list says why")
	// ErrRevoked: the token of a client was good, and its file has another one in its place, or none.
	ErrRevoked = errors.New("the token was revoked or changed")
	// ErrEnded: the token of a client was good, and its time is over.
	ErrEnded = errors.New("the token has expired")
	// ErrWrongAudience: Config.Audience is not in its aud.
	ErrWrongAudience = errors.New("websocket jwt audience mismatch")
)

// Authenticator checks requests. New makes one. Its methods may be called from any goroutine.
type Authenticator struct {
	mode string

	// capability is the capability token.
	capability *capability

	// tokens are those with roles, in place of capability; nil: there are none.
	tokens *TokenFile

	// The rest is for signed tokens.
	secret   []byte
	parser   *jwt.Parser
	now      func() time.Time
	skew     time.Duration
	issuer   string // empty: any
	audience string // empty: any
}

// String returns the mode, and nothing that is secret.
func (a *Authenticator) String() string { return "wsauth " + a.mode }

// Check returns nil when a request carries a valid token, else one of the
// errors above. It reads nothing but the Authorization header, and compares
// tokens and signatures in constant time.
func (a *Authenticator) Check(r *http.Request) error {
	_, err := a.Authenticate(r)
	return err
}

// Authenticate is Check that also returns what the client may do. The principal is one for
// all clients that know the capability token, one for all JWTs of an issuer and
// subject, so that a new token can replace one that expires, and for tokens with roles that
// of the token.
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
