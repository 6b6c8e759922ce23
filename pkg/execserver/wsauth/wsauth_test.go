package wsauth

import (
	"encoding/base64"
	"errors"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
)

func request(headers ...string) *http.Request {
	return &http.Request{Header: http.Header{"Authorization": headers}}
}

func TestCapabilityToken(t *testing.T) {
	long := strings.Repeat("x", maxTokenBytes)
	for name, c := range map[string]Config{
		"file":   {Mode: CapabilityToken, TokenFile: file(t, "\t"+testToken+" \r\n\n")},
		"digest": {Mode: CapabilityToken, TokenSHA256: sha(testToken)},
	} {
		a, err := New(c)
		if err != nil {
			t.Fatal(err)
		}
		for _, tt := range []struct {
			headers []string
			want    error
		}{
			{[]string{"Bearer " + testToken}, nil},
			{[]string{"Bearer wrong"}, ErrToken},
			{[]string{"Bearer " + testToken + "x"}, ErrToken},
			{[]string{"Bearer " + testToken[1:]}, ErrToken},
			{[]string{"Bearer " + long}, ErrToken},
			{[]string{"Bearer " + long + "x"}, ErrToken},
			{[]string{"Bearer"}, ErrHeader},
			{nil, ErrMissing},
		} {
			if got := a.Check(request(tt.headers...)); got != tt.want {
				t.Errorf("%s: %.80q: %v, want %v", name, tt.headers, got, tt.want)
			}
		}
	}
}

func TestCapabilityTokenAtItsLimit(t *testing.T) {
	long := strings.Repeat("x", maxTokenBytes)
	a, err := New(Config{Mode: CapabilityToken, TokenSHA256: sha(long)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Check(request("Bearer " + long)); err != nil {
		t.Error(err)
	}
	b, err := New(Config{Mode: CapabilityToken, TokenSHA256: sha(long + "x")})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Check(request("Bearer " + long + "x")); err != ErrToken {
		t.Error(err)
	}
}

func TestBearerToken(t *testing.T) {
	for _, tt := range []struct {
		headers []string
		token   string
		err     error
	}{
		{[]string{"Bearer tok"}, "tok", nil},
		{[]string{"bearer tok"}, "tok", nil},
		{[]string{"BEARER tok"}, "tok", nil},
		{[]string{"Bearer   tok\t"}, "tok", nil},
		{[]string{" Bearer tok "}, "tok", nil},
		{[]string{"Bearer a b"}, "a b", nil},
		{[]string{"Bearer \"tok\""}, `"tok"`, nil},
		{nil, "", ErrMissing},
		{[]string{""}, "", ErrHeader},
		{[]string{"Bearer"}, "", ErrHeader},
		{[]string{"Bearer "}, "", ErrHeader},
		{[]string{"Bearer\ttok"}, "", ErrHeader},
		{[]string{"Bearertok"}, "", ErrHeader},
		{[]string{"tok"}, "", ErrHeader},
		{[]string{"Basic dG9r"}, "", ErrHeader},
		{[]string{"Bearer t\xf6k"}, "", ErrHeader},
		{[]string{"Bearer żó"}, "", ErrHeader},
		{[]string{"Bearer t\x00k"}, "", ErrHeader},
		{[]string{"Bearer tok", "Bearer tok"}, "", ErrHeader},
		{[]string{"Bearer tok", ""}, "", ErrHeader},
	} {
		token, err := bearerToken(tt.headers)
		if token != tt.token || err != tt.err {
			t.Errorf("%q: %q, %v; want %q, %v", tt.headers, token, err, tt.token, tt.err)
		}
	}
}

// signer makes tokens, which are valid unless the caller changes them.
type signer struct {
	t   *testing.T
	now time.Time
}

// claims returns valid claims with changes: alternating names and values. The value nil removes
// a claim.
func (s signer) claims(changes ...any) jwt.MapClaims {
	c := jwt.MapClaims{"iss": "me", "aud": []string{"x", "you"}, "exp": s.now.Add(time.Minute).Unix()}
	for i := 0; i < len(changes); i += 2 {
		if name := changes[i].(string); changes[i+1] == nil {
			delete(c, name)
		} else {
			c[name] = changes[i+1]
		}
	}
	return c
}

// sign makes a token with a method, a key and additional members of the header.
func (s signer) sign(method jwt.SigningMethod, key any, c jwt.MapClaims, header ...string) string {
	s.t.Helper()
	token := jwt.NewWithClaims(method, c)
	for _, name := range header {
		token.Header[name] = []string{"b64"}
	}
	text, err := token.SignedString(key)
	if err != nil {
		s.t.Fatal(err)
	}
	return text
}

// good makes a valid token with changes of its claims.
func (s signer) good(changes ...any) string {
	s.t.Helper()
	return s.sign(jwt.SigningMethodHS256, []byte(testSecret), s.claims(changes...))
}

// raw signs a payload without changing it.
func (s signer) raw(payload string) string {
	s.t.Helper()
	text := strings.Split(s.good(), ".")[0] + "." + base64.RawURLEncoding.EncodeToString([]byte(payload))
	signature, err := jwt.SigningMethodHS256.Sign(text, []byte(testSecret))
	if err != nil {
		s.t.Fatal(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func TestSignedBearerToken(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := signer{t, now}
	a, err := newAt(Config{
		Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret+"\n"), Issuer: " me ", Audience: "you",
	}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	at := func(d time.Duration) int64 { return now.Add(d).Unix() }
	hs, key := jwt.SigningMethodHS256, []byte(testSecret)
	good := s.good()
	for _, tt := range []struct {
		name, token string
		want        error
	}{
		{"good", good, nil},
		{"one audience", s.good("aud", "you"), nil},
		{"exp just within the skew", s.good("exp", at(-DefaultClockSkew+time.Second)), nil},
		{"exp at the skew", s.good("exp", at(-DefaultClockSkew)), ErrExpired},
		{"nbf at the skew", s.good("nbf", at(DefaultClockSkew)), nil},
		{"nbf just past the skew", s.good("nbf", at(DefaultClockSkew+time.Second)), ErrNotYet},
		{"expired before it is valid", s.good("exp", at(-time.Hour), "nbf", at(time.Hour)), ErrExpired},
		{"expired and of a wrong issuer", s.good("exp", at(-time.Hour), "iss", "x"), ErrExpired},
		{"iat does not matter", s.good("iat", at(time.Hour)), nil},
		{"nbf null", s.raw(`{"exp":99999999999,"nbf":null,"iss":"me","aud":"you"}`), nil},
		{"exp at the limit", s.good("exp", int64(maxUnixTime)), nil},

		{"no exp", s.good("exp", nil), ErrJWT},
		{"exp null", s.raw(`{"exp":null,"iss":"me","aud":"you"}`), ErrJWT},
		{"exp as text", s.good("exp", "99999999999"), ErrJWT},
		{"exp with a fraction", s.good("exp", 99999999999.5), ErrJWT},
		{"exp past the limit", s.good("exp", int64(maxUnixTime)+1), ErrJWT},
		{"exp beyond all integers", s.raw(`{"exp":1e30,"iss":"me","aud":"you"}`), ErrJWT},
		{"nbf as text", s.good("nbf", "0"), ErrJWT},
		{"nbf that would overflow", s.good("nbf", int64(1<<63-1)), ErrJWT},
		{"nbf that would underflow", s.good("nbf", int64(-1<<63)), ErrJWT},

		{"audience in other letters", s.raw(`{"exp":99999999999,"iss":"me","aud":"other","AUD":"you"}`), ErrWrongAudience},
		{"issuer in other letters", s.raw(`{"exp":99999999999,"iss":"other","Iss":"me","aud":"you"}`), ErrWrongIssuer},
		{"exp in other letters", s.raw(`{"exp":1,"EXP":99999999999,"iss":"me","aud":"you"}`), ErrExpired},
		{"nbf in other letters", s.raw(`{"exp":99999999999,"nbf":99999999998,"Nbf":1,"iss":"me","aud":"you"}`), ErrNotYet},
		{"only other letters", s.raw(`{"Exp":99999999999,"Iss":"me","Aud":"you"}`), ErrJWT},
		{"letters that fold", s.raw(`{"exp":99999999999,"iſs":"me","aud":"you"}`), ErrWrongIssuer},
		{"a claim twice", s.raw(`{"exp":99999999999,"iss":"me","aud":"you","aud":"you"}`), ErrJWT},
		{"a claim twice, once escaped", s.raw(`{"exp":1,"iss":"me","aud":"you","e\u0078p":99999999999}`), ErrJWT},

		{"wrong issuer", s.good("iss", "other"), ErrWrongIssuer},
		{"no issuer", s.good("iss", nil), ErrWrongIssuer},
		{"issuers", s.good("iss", []string{"me"}), ErrJWT},
		{"wrong audience", s.good("aud", "other"), ErrWrongAudience},
		{"no audience", s.good("aud", nil), ErrWrongAudience},
		{"no audiences", s.good("aud", []string{}), ErrWrongAudience},
		{"audience that is no text", s.good("aud", 5), ErrJWT},
		{"audiences that are no texts", s.good("aud", []any{"you", 5}), ErrJWT},
		{"both wrong", s.good("iss", "x", "aud", "x"), ErrWrongIssuer},

		{"wrong key", s.sign(hs, []byte("x"+testSecret), s.claims()), ErrJWT},
		{"wrong key tells nothing else", s.sign(hs, []byte("x"+testSecret), s.claims("exp", 1)), ErrJWT},
		{"HS384", s.sign(jwt.SigningMethodHS384, key, s.claims()), ErrJWT},
		{"HS512", s.sign(jwt.SigningMethodHS512, key, s.claims()), ErrJWT},
		{"none", s.sign(jwt.SigningMethodNone, jwt.UnsafeAllowNoneSignatureType, s.claims()), ErrJWT},
		{"no signature", good[:strings.LastIndexByte(good, '.')+1], ErrJWT},
		{"a header that must be understood", s.sign(hs, key, s.claims(), "crit"), ErrJWT},
		{"a header that need not be", s.sign(hs, key, s.claims(), "kid"), nil},
		{"padding", good + "=", ErrJWT},
		{"four parts", good + ".x", ErrJWT},
		{"garbage", "a.b.c", ErrJWT},
		{"claims that are null", s.raw(`null`), ErrJWT},
		{"claims that are an array", s.raw(`[]`), ErrJWT},
		{"claims and more", s.raw(`{"exp":99999999999,"iss":"me","aud":"you"} x`), ErrJWT},
		{"past the limit", s.good("pad", strings.Repeat("x", maxTokenBytes)), ErrJWT},
	} {
		if got := a.Check(request("Bearer " + tt.token)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
	for _, headers := range [][]string{nil, {"Bearer"}} {
		if err := a.Check(request(headers...)); !errors.Is(err, ErrMissing) && !errors.Is(err, ErrHeader) {
			t.Errorf("%q: got error %v, want %v or %v", headers, err, ErrMissing, ErrHeader)
		}
	}
}

func TestSignedBearerTokenForAnybody(t *testing.T) {
	now := time.Now()
	s := signer{t, now}
	none := time.Duration(0)
	a, err := newAt(Config{
		Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret), ClockSkew: &none,
	}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		name, token string
		want        error
	}{
		{"any issuer and audience", s.good("iss", "x", "aud", "y"), nil},
		{"no issuer and audience", s.good("iss", nil, "aud", nil), nil},
		{"an issuer of the wrong type", s.good("iss", 5), ErrJWT},
		{"no skew: expired", s.good("exp", now.Add(-2*time.Second).Unix()), ErrExpired},
		{"no skew: not yet", s.good("nbf", now.Add(2*time.Second).Unix()), ErrNotYet},
	} {
		if got := a.Check(request("Bearer " + tt.token)); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}

// FuzzBearerToken checks that a token is presentable and unchanged after it is sent again.
func FuzzBearerToken(f *testing.F) {
	for _, s := range []string{"Bearer x", "bearer\tx", "Bearer ", " BEARER  a b\t", "Bearer \xff", "Basic x"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, header string) {
		token, err := bearerToken([]string{header})
		if err != nil {
			if token != "" || err != ErrHeader {
				t.Errorf(`%q: got token %q, error %v; want token "", error %v`, header, token, err, ErrHeader)
			}
			return
		}
		again, err := bearerToken([]string{"Bearer " + token})
		if !presentable(token) || again != token || err != nil {
			t.Errorf("%q: %q, then %q, %v", header, token, again, err)
		}
	})
}

// FuzzSignedToken searches for a token that is accepted although it was not signed.
func FuzzSignedToken(f *testing.F) {
	name := f.TempDir() + "/secret"
	if err := os.WriteFile(name, []byte(testSecret), 0o600); err != nil {
		f.Fatal(err)
	}
	now := time.Unix(1_700_000_000, 0)
	a, err := newAt(Config{Mode: SignedBearerToken, SharedSecretFile: name}, func() time.Time { return now })
	if err != nil {
		f.Fatal(err)
	}
	claims := jwt.MapClaims{"exp": now.Add(time.Minute).Unix()}
	valid, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(testSecret))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(valid)
	f.Add(valid[:len(valid)-1])
	f.Add("a.b.c")
	f.Add("eyJhbGciOiJub25lIn0.eyJleHAiOjk5OTk5OTk5OTk5fQ.")
	f.Add("eyJhbGciOiJIUzI1NiIsImNyaXQiOlsieCJdfQ.bnVsbA.AA")
	f.Fuzz(func(t *testing.T, token string) {
		if err := a.Check(request("Bearer " + token)); err == nil && strings.Trim(token, blank) != valid {
			t.Errorf("accepted %q", token)
		}
	})
}

// TestPrincipals: the principal depends on issuer and subject, so that a session belongs to all
// tokens that have both in common.
func TestPrincipals(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := signer{t, now}
	a, err := newAt(Config{Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret)}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	principal := func(changes ...any) string {
		t.Helper()
		p, err := a.Authenticate(request("Bearer " + s.good(changes...)))
		if err != nil || p.Principal == "" {
			t.Fatalf(`got p.Principal %q, error %v; want no error, p.Principal other than ""`, p.Principal, err)
		}
		return p.Principal
	}
	first := principal("sub", "ann")
	if again := principal("sub", "ann", "exp", now.Add(time.Hour).Unix(), "aud", "x"); again != first {
		t.Error("a new token of the same subject is another principal")
	}
	for _, changes := range [][]any{{"sub", "bob"}, {}, {"sub", "ann", "iss", "other"}, {"sub", []string{"ann"}}} {
		if principal(changes...) == first {
			t.Errorf("%v is the same principal", changes)
		}
	}
}
