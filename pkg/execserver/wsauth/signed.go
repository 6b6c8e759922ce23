package wsauth

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"slices"
	"time"

	"codex.internal/pkg/wire/jsonwire"
	"github.com/golang-jwt/jwt/v5"
)

// errCritical is the error for tokens with critical extensions (RFC 7515, 4.1.11). This package
// supports none.
var errCritical = errors.New("the token has critical extensions")

// newParser returns a parser that accepts only HS256. It refuses "none", and key types with
// which the secret could be confused. It requires exp and checks nbf. It ignores iat.
func newParser(skew time.Duration, now func() time.Time) *jwt.Parser {
	return jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithStrictDecoding(),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(skew),
		jwt.WithTimeFunc(now),
	)
}

// checkSigned verifies a signed token and returns its grant. The principal is issuer and
// subject. If the signature is wrong, the error contains nothing of the claims.
func (a *Authenticator) checkSigned(token string) (Grant, error) {
	if len(token) > maxTokenBytes {
		return Grant{}, ErrJWT
	}
	var c claims
	secret := a.secret.current()
	_, err := a.parser.ParseWithClaims(token, &c, func(token *jwt.Token) (any, error) {
		if _, critical := token.Header["crit"]; critical {
			return nil, errCritical
		}
		return secret, nil
	})
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return Grant{}, ErrExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return Grant{}, ErrNotYet
	case err != nil:
		return Grant{}, ErrJWT
	case a.issuer != "" && c.Issuer != a.issuer:
		return Grant{}, ErrWrongIssuer
	case a.audience != "" && !slices.Contains(c.Audience, a.audience):
		return Grant{}, ErrWrongAudience
	}
	grant := Unlimited(c.principal())
	grant.Renewable = true
	grant.Expires = time.Unix(*c.ExpiresAt, 0)
	if !a.now().Before(grant.Expires) {
		grant.Expires = grant.Expires.Add(a.skew) // otherwise the connection would end at once
	}
	grant.check = func() error {
		if !a.now().Before(grant.Expires) {
			return ErrEnded
		}
		if !bytes.Equal(secret, a.secret.current()) {
			return ErrRevoked
		}
		return nil
	}
	return grant, nil
}

// principal returns a digest of issuer and subject, because both may be long.
func (c *claims) principal() string {
	text, err := json.Marshal([]any{c.Issuer, c.Subject})
	if err != nil {
		text = c.Subject // cannot happen: both were decoded from JSON
	}
	digest := sha256.Sum256(text)
	return "jwt " + hex.EncodeToString(digest[:])
}

// claims are the claims that this package reads. It accepts the same types as Codex CLI: whole
// seconds, one issuer, one or more audiences.
type claims struct {
	ExpiresAt *int64           `json:"exp"`
	NotBefore *int64           `json:"nbf"`
	Issuer    string           `json:"iss"`
	Audience  jwt.ClaimStrings `json:"aud"`
	// Subject has any JSON type. It is compared with the subjects of other tokens.
	Subject json.RawMessage `json:"sub"`
}

// UnmarshalJSON decodes claims by their exact names. A duplicate claim is an error:
// encoding/json would let a claim "AUD", chosen by a user, replace the signer's "aud".
func (c *claims) UnmarshalJSON(text []byte) error {
	type plain claims
	return jsonwire.Unmarshal(text, (*plain)(c))
}

// errTime is the error for times that would overflow.
var errTime = errors.New("the time is out of range")

func numericDate(seconds *int64) (*jwt.NumericDate, error) {
	switch {
	case seconds == nil:
		return nil, nil
	case *seconds > maxUnixTime || *seconds < -maxUnixTime:
		return nil, errTime
	default:
		return jwt.NewNumericDate(time.Unix(*seconds, 0)), nil
	}
}

// The methods of jwt.Claims. checkSigned itself compares issuer and audience: the library
// reports a missing issuer in the same way as a missing exp, but the protocol treats it as a
// wrong issuer.

func (c *claims) GetExpirationTime() (*jwt.NumericDate, error) { return numericDate(c.ExpiresAt) }
func (c *claims) GetNotBefore() (*jwt.NumericDate, error)      { return numericDate(c.NotBefore) }
func (c *claims) GetIssuedAt() (*jwt.NumericDate, error)       { return nil, nil }
func (c *claims) GetIssuer() (string, error)                   { return c.Issuer, nil }
func (c *claims) GetSubject() (string, error)                  { return "", nil }
func (c *claims) GetAudience() (jwt.ClaimStrings, error)       { return c.Audience, nil }
