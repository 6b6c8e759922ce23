// Package wsauth guards the listening port (section 8.1): it checks the
// bearer token of a websocket's HTTP request, either against one token or as
// a signed one.
package wsauth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

// The modes of Config.Mode.
const (
	CapabilityToken   = "capability-token"
	SignedBearerToken = "signed-bearer-token"
)

const (
	// DefaultClockSkew is how far the clocks of signer and server may differ.
	DefaultClockSkew = 30 * time.Second
	// minSecret is the shortest shared secret: HS256 with less could be
	// guessed.
	minSecret = 32
	// maxFile bounds the files that hold a token or a secret.
	maxFile = 64 << 10
	// maxToken bounds what is looked at of a client's token.
	maxToken = 16 << 10
)

// Config are the values of the flags; empty ones were not given.
type Config struct {
	Mode             string         // --ws-auth
	TokenFile        string         // --ws-token-file
	TokenSHA256      string         // --ws-token-sha256
	SharedSecretFile string         // --ws-shared-secret-file
	Issuer           string         // --ws-issuer
	Audience         string         // --ws-audience
	ClockSkew        *time.Duration // --ws-max-clock-skew-seconds
}

// Authenticator checks requests. It may be used from any goroutine.
type Authenticator struct {
	digest []byte // of the capability token; nil in the other mode
	secret []byte
	parser *jwt.Parser
	issuer string
	aud    string
}

// The refusals of Check, whose texts the client gets.
var (
	ErrMissing       = errors.New("missing websocket bearer token")
	ErrHeader        = errors.New("invalid authorization header")
	ErrToken         = errors.New("invalid websocket bearer token")
	ErrJWT           = errors.New("invalid websocket jwt")
	ErrExpired       = errors.New("expired websocket jwt")
	ErrNotYet        = errors.New("websocket jwt is not valid yet")
	ErrWrongIssuer   = errors.New("websocket jwt issuer mismatch")
	ErrWrongAudience = errors.New("websocket jwt audience mismatch")
)

// New returns the authenticator that the flags ask for; nil when they ask for
// none. Errors name the flag and the remedy.
func New(c Config) (*Authenticator, error) {
	switch c.Mode {
	case "":
		if flag := c.given(); flag != "" {
			return nil, fmt.Errorf("%s needs --ws-auth; add --ws-auth %s or --ws-auth %s", flag, CapabilityToken, SignedBearerToken)
		}
		return nil, nil
	case CapabilityToken:
		return newCapability(c)
	case SignedBearerToken:
		return newSigned(c)
	default:
		return nil, fmt.Errorf("unknown --ws-auth %q; use %s or %s", c.Mode, CapabilityToken, SignedBearerToken)
	}
}

// given names a flag that means something with --ws-auth only.
func (c *Config) given() string {
	switch {
	case c.TokenFile != "":
		return "--ws-token-file"
	case c.TokenSHA256 != "":
		return "--ws-token-sha256"
	default:
		return c.givenSigned()
	}
}

func (c *Config) givenSigned() string {
	switch {
	case c.SharedSecretFile != "":
		return "--ws-shared-secret-file"
	case c.Issuer != "":
		return "--ws-issuer"
	case c.Audience != "":
		return "--ws-audience"
	case c.ClockSkew != nil:
		return "--ws-max-clock-skew-seconds"
	default:
		return ""
	}
}

func newCapability(c Config) (*Authenticator, error) {
	if flag := c.givenSigned(); flag != "" {
		return nil, fmt.Errorf("%s belongs to --ws-auth %s, not to %s", flag, SignedBearerToken, CapabilityToken)
	}
	switch {
	case c.TokenFile != "" && c.TokenSHA256 != "":
		return nil, errors.New("--ws-token-file and --ws-token-sha256 exclude each other; give one of them")
	case c.TokenFile != "":
		token, err := readSecret("--ws-token-file", c.TokenFile)
		if err != nil {
			return nil, err
		}
		token = bytes.TrimSpace(token)
		if len(token) == 0 {
			return nil, fmt.Errorf("--ws-token-file %s: the file holds no token", c.TokenFile)
		}
		digest := sha256.Sum256(token)
		return &Authenticator{digest: digest[:]}, nil
	case c.TokenSHA256 != "":
		digest, err := hex.DecodeString(c.TokenSHA256)
		if err != nil || len(digest) != sha256.Size {
			return nil, errors.New("--ws-token-sha256 must be the SHA-256 of the token as 64 hexadecimal digits")
		}
		return &Authenticator{digest: digest}, nil
	default:
		return nil, fmt.Errorf("--ws-auth %s needs the token: give --ws-token-file FILE or --ws-token-sha256 HEX", CapabilityToken)
	}
}

func newSigned(c Config) (*Authenticator, error) {
	if c.TokenFile != "" || c.TokenSHA256 != "" {
		return nil, fmt.Errorf("%s belongs to --ws-auth %s, not to %s", c.given(), CapabilityToken, SignedBearerToken)
	}
	if c.SharedSecretFile == "" {
		return nil, fmt.Errorf("--ws-auth %s needs the secret: give --ws-shared-secret-file FILE", SignedBearerToken)
	}
	secret, err := readSecret("--ws-shared-secret-file", c.SharedSecretFile)
	if err != nil {
		return nil, err
	}
	secret = bytes.TrimSuffix(bytes.TrimSuffix(secret, []byte("\n")), []byte("\r"))
	if len(secret) < minSecret {
		return nil, fmt.Errorf("--ws-shared-secret-file %s: the secret must have at least %d bytes", c.SharedSecretFile, minSecret)
	}
	skew := DefaultClockSkew
	if c.ClockSkew != nil {
		skew = *c.ClockSkew
	}
	if skew < 0 {
		return nil, errors.New("--ws-max-clock-skew-seconds must not be negative")
	}
	parser := jwt.NewParser(
		jwt.WithValidMethods([]string{jwt.SigningMethodHS256.Alg()}),
		jwt.WithExpirationRequired(),
		jwt.WithLeeway(skew),
	)
	return &Authenticator{secret: secret, parser: parser, issuer: c.Issuer, aud: c.Audience}, nil
}

func readSecret(flag, name string) ([]byte, error) {
	if !filepath.IsAbs(name) {
		return nil, fmt.Errorf("%s must be an absolute path, not %q", flag, name)
	}
	st, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	if !st.Mode().IsRegular() || st.Size() > maxFile {
		return nil, fmt.Errorf("%s %s: must be a file of at most %d bytes", flag, name, maxFile)
	}
	data, err := os.ReadFile(name)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", flag, err)
	}
	return data, nil
}

// Check returns nil when the request may become a connection, else one of the
// errors above.
func (a *Authenticator) Check(r *http.Request) error {
	token, err := bearer(r.Header.Values("Authorization"))
	if err != nil {
		return err
	}
	if a.digest != nil {
		digest := sha256.Sum256([]byte(token))
		if subtle.ConstantTimeCompare(digest[:], a.digest) != 1 {
			return ErrToken
		}
		return nil
	}
	return a.checkJWT(token)
}

// bearer takes the token out of the header's only value.
func bearer(values []string) (string, error) {
	switch {
	case len(values) == 0:
		return "", ErrMissing
	case len(values) > 1 || len(values[0]) > maxToken:
		return "", ErrHeader
	}
	scheme, token, ok := strings.Cut(values[0], " ")
	token = strings.TrimSpace(token)
	if !ok || !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", ErrHeader
	}
	return token, nil
}

func (a *Authenticator) checkJWT(token string) error {
	claims := jwt.RegisteredClaims{}
	_, err := a.parser.ParseWithClaims(token, &claims, func(*jwt.Token) (any, error) { return a.secret, nil })
	switch {
	case errors.Is(err, jwt.ErrTokenExpired):
		return ErrExpired
	case errors.Is(err, jwt.ErrTokenNotValidYet):
		return ErrNotYet
	case err != nil:
		return ErrJWT
	case a.issuer != "" && claims.Issuer != a.issuer:
		return ErrWrongIssuer
	}
	if a.aud == "" {
		return nil
	}
	for _, aud := range claims.Audience {
		if aud == a.aud {
			return nil
		}
	}
	return ErrWrongAudience
}
