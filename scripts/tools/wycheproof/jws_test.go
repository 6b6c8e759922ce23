package wycheproof

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execserver/wsauth"
)

// signatures is a group of JSON Web Signatures under one key. JWS is a string, or an object in the
// JSON serialization.
type signatures struct {
	Comment string
	Private struct{ Alg, Kty, K string }
	Tests   []struct {
		verdict
		JWS json.RawMessage
	}
}

// TestForgedTokens sends each signature of the vectors as a token to a server whose secret is the
// vector's key. It also sends claims that the server would accept, signed with that secret, under
// the vector's header. The server may accept only HS256, whatever a header says, and only the
// compact form.
func TestForgedTokens(t *testing.T) {
	tried, accepted := 0, 0
	for _, file := range []string{"json_web_signature_test.json", "json_web_crypto_test.json"} {
		for _, g := range read[signatures](t, file) {
			secret := g.secret(t)
			check := server(t, secret)
			for _, v := range g.Tests {
				tried++
				token := text(v.JWS)
				// No vector's payload is a set of claims with an expiry, so no token may be
				// accepted.
				if check(token) == nil {
					t.Errorf("%s %s %d, %s: it was accepted", file, g.Comment, v.ID, v.Comment)
				}
				header, _, compact := strings.Cut(token, ".")
				if !compact {
					continue
				}
				err := check(sign(header, secret))
				if want := acceptable(header); (err == nil) != want {
					t.Errorf("%s %s %d, %s: header %q: %v", file, g.Comment, v.ID, v.Comment, header, err)
				}
				if err == nil {
					accepted++
				}
			}
		}
	}
	enough(t, tried, 450)
	enough(t, accepted, 20) // so that the refusals are not for another reason
}

// TestSignatures verifies HS256 in the same way as the server. If a vector's payload is replaced by
// claims, the token is accepted only with the signature of these claims.
func TestSignatures(t *testing.T) {
	seen := 0
	for _, g := range read[signatures](t, "json_web_signature_test.json") {
		if g.Private.Alg != "HS256" {
			continue
		}
		secret := g.secret(t)
		check := server(t, secret)
		for _, v := range g.Tests {
			parts := strings.Split(text(v.JWS), ".")
			if len(parts) != 3 || !acceptable(parts[0]) {
				continue
			}
			seen++
			good := sign(parts[0], secret)
			if err := check(good); err != nil {
				t.Errorf("%d, %s: the signed claims are refused: %v", v.ID, v.Comment, err)
			}
			end := strings.LastIndexByte(good, '.') + 1
			if check(good[:end]+parts[2]) == nil {
				t.Errorf("%d, %s: the vector's signature is accepted for other claims", v.ID, v.Comment)
			}
			if check(good+".") == nil || check(good+"=") == nil || check(good[:end]) == nil {
				t.Errorf("%d, %s: another form is accepted", v.ID, v.Comment)
			}
		}
	}
	enough(t, seen, 10)
}

// text returns a signature as a client would send it.
func text(jws json.RawMessage) string {
	var compact string
	if json.Unmarshal(jws, &compact) == nil {
		return compact
	}
	return string(jws)
}

// secret returns the key of a symmetric group. For other groups it returns the text of the key,
// extended to the required length: a server that mistakes a public key for a secret would use that
// text.
func (g *signatures) secret(t *testing.T) []byte {
	t.Helper()
	if g.Private.Kty != "oct" {
		return []byte("a secret of a server with other keys " + g.Comment)
	}
	key, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(g.Private.K, "="))
	if err != nil || len(key) < 32 {
		return []byte("a secret in place of a bad or short key " + g.Comment)
	}
	return key
}

// acceptable reports whether a header in base64 has the algorithm HS256 and no critical
// extensions.
func acceptable(header string) bool {
	decoded, err := base64.RawURLEncoding.Strict().DecodeString(header)
	if err != nil {
		return false
	}
	var members map[string]any
	if json.Unmarshal(decoded, &members) != nil {
		return false
	}
	_, critical := members["crit"]
	return members["alg"] == "HS256" && !critical
}

// sign returns a token with the header and claims that expire in an hour.
func sign(header string, secret []byte) string {
	claims := fmt.Sprintf(`{"exp":%d,"sub":"somebody"}`, time.Now().Add(time.Hour).Unix())
	signed := header + "." + base64.RawURLEncoding.EncodeToString([]byte(claims))
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte(signed))
	return signed + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// server returns the check of a server with a secret.
func server(t *testing.T, secret []byte) func(token string) error {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	// A newline at the end of the file is not a part of the secret.
	if err := os.WriteFile(path, append(secret[:len(secret):len(secret)], '\n'), 0o600); err != nil {
		t.Fatal(err)
	}
	auth, err := wsauth.New(wsauth.Config{Mode: wsauth.SignedBearerToken, SharedSecretFile: path})
	if err != nil {
		t.Fatal(err)
	}
	return func(token string) error {
		return auth.Check(&http.Request{Header: http.Header{"Authorization": {"Bearer " + token}}})
	}
}
