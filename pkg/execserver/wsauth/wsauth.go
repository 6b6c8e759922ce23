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
// may connect; the server needs only its SHA-256. With SignedBearerToken tokens are
// JWTs, signed with HS256 and a shared secret; they must expire, and can be
// bound to an issuer and an audience.
//
// Tokens and secrets appear in no error and no String.
package wsauth

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"net/http"

	"github.com/golang-jwt/jwt/v5"
)

// The refusals of Check. Their texts are the protocol's: the client gets them
// with status 401.
var (
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
	// ErrWrongAudience: Config.Audience is not in its aud.
	ErrWrongAudience = errors.New("websocket jwt audience mismatch")
)

// Authenticator checks requests. New makes one; it never changes, so its
// methods may be called from any goroutine.
type Authenticator struct {
	mode string

	// digest is the SHA-256 of the capability token.
	digest [sha256.Size]byte

	// The rest is for signed tokens.
	secret   []byte
	parser   *jwt.Parser
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

// Authenticate is Check that also returns the principal of the token: one for all
// clients that know the capability token, and one for all JWTs of an issuer and
// subject, so that a new token can replace one that expires.
func (a *Authenticator) Authenticate(r *http.Request) (principal string, err error) {
	token, err := bearerToken(r.Header.Values("Authorization"))
	if err != nil {
		return "", err
	}
	if a.mode == SignedBearerToken {
		return a.checkSigned(token)
	}
	if len(token) > maxTokenBytes {
		return "", ErrToken
	}
	// Comparing digests takes the same time wherever the tokens differ, and
	// whatever their lengths.
	digest := sha256.Sum256([]byte(token))
	if subtle.ConstantTimeCompare(digest[:], a.digest[:]) != 1 {
		return "", ErrToken
	}
	// A digest of the digest: who can read it somewhere learns nothing of the token, and
	// what belongs to one token does not belong to the next.
	digest = sha256.Sum256(digest[:])
	return CapabilityToken + " " + hex.EncodeToString(digest[:16]), nil
}
