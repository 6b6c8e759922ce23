package signin

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"unicode"
)

// fixedAnswer gives the same answer to every request.
type fixedAnswer struct {
	status int
	body   string
}

func (a fixedAnswer) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Header: http.Header{}, Body: io.NopCloser(strings.NewReader(a.body)), Request: r}, nil
}

// FuzzIdentityAnswers answers every request to the identity service with
// arbitrary data. A success must be complete, and an error must contain no
// characters that control a terminal.
func FuzzIdentityAnswers(f *testing.F) {
	f.Add(200, `{"id_token":"e30.e30.c2ln","access_token":"a","refresh_token":"r"}`)
	f.Add(200, `{"device_auth_id":"d","user_code":"A","interval":"5"}`)
	f.Add(200, `{"device_auth_id":"d","usercode":"\u001b[2J","interval":"5"}`)
	f.Add(200, `{"authorization_code":"c","code_verifier":"v"}`)
	f.Add(200, `{"chatgpt_account_id":"acct-1","chatgpt_account_is_fedramp":true}`)
	f.Add(401, `{"error":{"code":"refresh_token_reused","message":"no"}}`)
	f.Add(500, `{"error":"x","error_description":"\u001b[2J"}`)
	id, err := ParseIDClaims("e30.e30.c2ln")
	if err != nil {
		f.Fatal(err)
	}
	old := Tokens{IDToken: "e30.e30.c2ln", AccessToken: "a", RefreshToken: "r", Claims: id}
	f.Fuzz(func(t *testing.T, status int, body string) {
		a := NewAuthority(AuthorityOptions{Getenv: environment{}.get, Transport: fixedAnswer{status, body}})
		for name, ask := range map[string]func(context.Context) (complete bool, err error){
			"refresh": func(ctx context.Context) (bool, error) {
				got, err := a.refresh(ctx, old)
				return got.AccessToken != "" && got.RefreshToken != "" && got.IDToken != "", err
			},
			"exchange": func(ctx context.Context) (bool, error) {
				_, err := a.exchange(ctx, grant{issuer: defaultIssuer, code: "c", verifier: "v"})
				return strings.Contains(body, ":"), err
			},
			"key": func(ctx context.Context) (bool, error) {
				got, err := a.exchangeKey(ctx, defaultIssuer, "me", "id")
				return got != "", err
			},
			"whoami": func(ctx context.Context) (bool, error) {
				_, err := a.whoami(ctx, "at-5")
				return strings.Contains(body, ":"), err
			},
			"code": func(ctx context.Context) (bool, error) {
				got, err := a.userCode(ctx, DeviceOptions{Issuer: defaultIssuer})
				return got.id != "" && got.user != "" && got.interval >= minInterval && !strings.ContainsFunc(got.user, unicode.IsControl), err
			},
			"grant": func(context.Context) (bool, error) {
				got, err := deviceGrant([]byte(body), DeviceOptions{})
				return got.code != "" && got.verifier != "", err
			},
			"revoke": func(ctx context.Context) (bool, error) { return true, a.revoke(ctx, old) },
		} {
			complete, err := ask(t.Context())
			if err == nil && (!complete || status/100 != 2 && name != "grant") {
				t.Errorf("%s: %d %q is taken for a success", name, status, body)
			}
			if err != nil && strings.ContainsFunc(err.Error(), func(r rune) bool { return unicode.IsControl(r) && r != '\n' && r != '\t' }) {
				t.Errorf("%s: got error %q, want no error", name, err)
			}
		}
	})
}

// FuzzIDToken makes the decoders of a payload read any text. No error repeats a part of it.
func FuzzIDToken(f *testing.F) {
	f.Add(idToken(`{"email":"a","exp":1800000000,"https://api.openai.com/auth":{"user_id":"u"}}`))
	f.Add(idToken(`{"exp":1e99}`))
	f.Add("a.b.c.d")
	f.Fuzz(func(t *testing.T, token string) {
		_, known := expiry(Secret(token))
		_, err := ParseIDClaims(Secret(token))
		if parts := strings.Split(token, "."); len(parts) != 3 && (err == nil || known) {
			t.Errorf("%q has %d parts", token, len(parts))
		}
		switch text := text(err); text {
		case "", "invalid ID token format", "invalid ID token format: the payload is not base64url", "invalid ID token format: the payload is not the JSON of claims":
		default:
			t.Errorf("%q: got error %s, want one that does not show the token", token, text)
		}
	})
}

// FuzzRefusal checks that no characters that control a terminal are printed.
func FuzzRefusal(f *testing.F) {
	f.Add("error=access_denied&error_description=%1b[2J")
	f.Fuzz(func(t *testing.T, text string) {
		query, err := url.ParseQuery(text)
		if err != nil {
			return
		}
		if err := refusal(query); err != nil && strings.ContainsAny(err.Error(), "\x1b\n\r\a\b") {
			t.Errorf("got error %q, want an error with none of %q", err, "\x1b\n\r\a\b")
		}
	})
}
