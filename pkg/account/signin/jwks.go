package signin

import (
	"context"
	"crypto/rsa"
	"encoding/base64"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/wire/jsonwire"
)

const (
	agentIssuer   = "https://chatgpt.com/codex-backend/agent-identity"
	agentAudience = "codex-app-server"
)

// keySet maps the ids of trusted public keys to the keys.
type keySet map[string]*rsa.PublicKey

// agentKeys requests the keys that sign agents' JWTs.
func (a *Authority) agentKeys(ctx context.Context, url string) (keySet, error) {
	got, err := a.do(ctx, request{method: http.MethodGet, url: url, timeout: jwksTimeout})
	if err != nil {
		return nil, &causedError{"failed to request agent identity JWKS", err}
	}
	if !got.ok() {
		return nil, &causedError{"agent identity JWKS endpoint returned an error", got.statusError(url)}
	}
	keys, err := parseKeySet(got.body)
	if err != nil {
		return nil, &causedError{"failed to decode agent identity JWKS", err}
	}
	return keys, nil
}

// parseKeySet parses a JSON Web Key Set (RFC 7517). It ignores keys of other types than RSA. A
// malformed RSA key is an error.
func parseKeySet(text []byte) (keySet, error) {
	var set struct {
		Keys *[]struct {
			Type     string `json:"kty"`
			ID       string `json:"kid"`
			Modulus  string `json:"n"`
			Exponent string `json:"e"`
		} `json:"keys"`
	}
	if err := jsonwire.Unmarshal(text, &set); err != nil {
		return nil, plainJSON("keys", err)
	}
	if set.Keys == nil {
		return nil, errors.New("missing field `keys`")
	}
	keys := keySet{}
	for _, k := range *set.Keys {
		if k.Type != "RSA" || k.ID == "" {
			continue
		}
		n, err := base64.RawURLEncoding.DecodeString(k.Modulus)
		if err != nil || len(n) > maxModulus {
			return nil, fmt.Errorf("key %q: the modulus is not base64url of at most %d bytes", k.ID, maxModulus)
		}
		e, err := base64.RawURLEncoding.DecodeString(k.Exponent)
		if err != nil || len(e) == 0 || len(e) > 3 {
			return nil, fmt.Errorf("key %q: the exponent is not base64url of at most three bytes", k.ID)
		}
		keys[k.ID] = &rsa.PublicKey{N: new(big.Int).SetBytes(n), E: int(new(big.Int).SetBytes(e).Int64())}
	}
	return keys, nil
}

// verify checks that a JWT is signed by one of the keys, is meant for this program, and has not
// expired.
func (keys keySet) verify(token Secret, now func() time.Time) error {
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodRS256.Alg()}),
		jwt.WithIssuer(agentIssuer), jwt.WithAudience(agentAudience),
		jwt.WithExpirationRequired(), jwt.WithLeeway(agentLeeway), jwt.WithTimeFunc(now),
	)
	unverified, _, err := parser.ParseUnverified(token.Reveal(), jwt.MapClaims{})
	if err != nil {
		return errors.New("failed to decode agent identity JWT header")
	}
	kid, _ := unverified.Header["kid"].(string)
	if kid == "" {
		return errors.New("agent identity JWT header does not include a kid")
	}
	key, trusted := keys[kid]
	if !trusted {
		return fmt.Errorf("agent identity JWT kid %s is not trusted", httpclient.PlainText(kid))
	}
	_, err = parser.Parse(token.Reveal(), func(*jwt.Token) (any, error) { return key, nil })
	if err == nil {
		return nil
	}
	return &causedError{"failed to verify agent identity JWT", errors.New(verifyReason(err, unverified.Method))}
}

// verifyReason returns Codex CLI's word for the error.
func verifyReason(err error, method jwt.SigningMethod) string {
	switch {
	case method.Alg() != jwt.SigningMethodRS256.Alg():
		return "InvalidAlgorithm"
	case errors.Is(err, jwt.ErrTokenSignatureInvalid), errors.Is(err, jwt.ErrTokenUnverifiable):
		return "InvalidSignature"
	case errors.Is(err, jwt.ErrTokenExpired):
		return "ExpiredSignature"
	case errors.Is(err, jwt.ErrTokenInvalidIssuer):
		return "InvalidIssuer"
	case errors.Is(err, jwt.ErrTokenInvalidAudience):
		return "InvalidAudience"
	case errors.Is(err, jwt.ErrTokenRequiredClaimMissing):
		return "MissingRequiredClaim"
	default:
		return "InvalidToken"
	}
}
