package wsauth

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func file(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func request(values ...string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": values}}
}

func TestConfigErrorsNameTheFlag(t *testing.T) {
	secret := file(t, strings.Repeat("s", minSecret))
	for _, tt := range []struct {
		c    Config
		want string
	}{
		{Config{TokenFile: "/x"}, "--ws-token-file"},
		{Config{Issuer: "x"}, "--ws-issuer"},
		{Config{Mode: "magic"}, "--ws-auth"},
		{Config{Mode: CapabilityToken}, "--ws-token-file"},
		{Config{Mode: CapabilityToken, TokenFile: "/x", TokenSHA256: "00"}, "exclude each other"},
		{Config{Mode: CapabilityToken, TokenFile: "relative"}, "absolute"},
		{Config{Mode: CapabilityToken, TokenFile: "/none/such"}, "--ws-token-file"},
		{Config{Mode: CapabilityToken, TokenFile: file(t, "\n")}, "no token"},
		{Config{Mode: CapabilityToken, TokenSHA256: "zz"}, "--ws-token-sha256"},
		{Config{Mode: CapabilityToken, TokenSHA256: "00", SharedSecretFile: "/x"}, "--ws-shared-secret-file"},
		{Config{Mode: SignedBearerToken}, "--ws-shared-secret-file"},
		{Config{Mode: SignedBearerToken, SharedSecretFile: secret, TokenFile: "/x"}, "--ws-token-file"},
		{Config{Mode: SignedBearerToken, SharedSecretFile: file(t, "short")}, "at least 32"},
		{Config{Mode: SignedBearerToken, SharedSecretFile: "/"}, "must be a file"},
	} {
		if _, err := New(tt.c); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v", tt.c, err)
		}
	}
	if a, err := New(Config{}); a != nil || err != nil {
		t.Errorf("without flags: %v, %v", a, err)
	}
}

func TestCapabilityToken(t *testing.T) {
	digest := sha256.Sum256([]byte("open sesame"))
	for _, c := range []Config{
		{Mode: CapabilityToken, TokenFile: file(t, "open sesame\n")},
		{Mode: CapabilityToken, TokenSHA256: hex.EncodeToString(digest[:])},
	} {
		a, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			r    *http.Request
			want error
		}{
			{request("Bearer open sesame"), nil},
			{request("bearer open sesame"), nil},
			{request(), ErrMissing},
			{request("Basic x"), ErrHeader},
			{request("Bearer"), ErrHeader},
			{request("Bearer  "), ErrHeader},
			{request("Bearer open sesame", "Bearer open sesame"), ErrHeader},
			{request("Bearer " + strings.Repeat("x", maxToken)), ErrHeader},
			{request("Bearer wrong"), ErrToken},
		} {
			if got := a.Check(tt.r); got != tt.want {
				t.Errorf("%q: %v, want %v", tt.r.Header, got, tt.want)
			}
		}
	}
}

func TestSignedBearerToken(t *testing.T) {
	secret := strings.Repeat("k", minSecret)
	a, err := New(Config{Mode: SignedBearerToken, SharedSecretFile: file(t, secret+"\n"), Issuer: "me", Audience: "you"})
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) int64 { return time.Now().Add(d).Unix() }
	sign := func(method jwt.SigningMethod, key any, claims jwt.MapClaims) string {
		s, err := jwt.NewWithClaims(method, claims).SignedString(key)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	good := func(change ...any) jwt.MapClaims {
		c := jwt.MapClaims{"iss": "me", "aud": []string{"x", "you"}, "exp": at(time.Minute)}
		for i := 0; i < len(change); i += 2 {
			if change[i+1] == nil {
				delete(c, change[i].(string))
				continue
			}
			c[change[i].(string)] = change[i+1]
		}
		return c
	}
	hs := jwt.SigningMethodHS256
	for _, tt := range []struct {
		name, token string
		want        error
	}{
		{"good", sign(hs, []byte(secret), good()), nil},
		{"within the skew", sign(hs, []byte(secret), good("exp", at(-20*time.Second), "nbf", at(20*time.Second))), nil},
		{"no exp", sign(hs, []byte(secret), good("exp", nil)), ErrJWT},
		{"expired", sign(hs, []byte(secret), good("exp", at(-time.Minute))), ErrExpired},
		{"not yet", sign(hs, []byte(secret), good("nbf", at(time.Minute))), ErrNotYet},
		{"issuer", sign(hs, []byte(secret), good("iss", "other")), ErrWrongIssuer},
		{"audience", sign(hs, []byte(secret), good("aud", "other")), ErrWrongAudience},
		{"key", sign(hs, []byte("x"+secret), good()), ErrJWT},
		{"algorithm", sign(jwt.SigningMethodHS512, []byte(secret), good()), ErrJWT},
		{"none", sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, good()), ErrJWT},
		{"garbage", "a.b.c", ErrJWT},
	} {
		if got := a.Check(request("Bearer " + tt.token)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

func FuzzBearer(f *testing.F) {
	f.Add("Bearer x")
	f.Add("bearer\tx")
	f.Add("Bearer ")
	f.Fuzz(func(t *testing.T, value string) {
		token, err := bearer([]string{value})
		if (err == nil) == (token == "") {
			t.Errorf("%q: %q, %v", value, token, err)
		}
	})
}
