package signin

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

// grant is the data with which an authorization code is exchanged.
type grant struct {
	secret.Unprinted
	issuer, clientID string
	code             Secret
	redirectURI      string
	verifier         Secret // of the challenge that the code was asked for with
}

// exchange exchanges an authorization code for tokens. Its error does not say which step failed.
func (a *Authority) exchange(ctx context.Context, g grant) (Tokens, error) {
	got, err := a.postForm(ctx, request{url: g.issuer + "/oauth/token", anonymous: true},
		param("grant_type", "authorization_code"), param("code", g.code.Reveal()),
		param("redirect_uri", g.redirectURI), param("client_id", g.clientID), param("code_verifier", g.verifier.Reveal()))
	if err != nil {
		return Tokens{}, err
	}
	if !got.ok() {
		return Tokens{}, fmt.Errorf("token endpoint returned status %s: %s", got.statusText(), got.detail())
	}
	var answer struct {
		IDToken      *string `json:"id_token"`
		AccessToken  *string `json:"access_token"`
		RefreshToken *string `json:"refresh_token"`
	}
	err = jsonwire.Unmarshal(got.body, &answer)
	if err != nil || answer.IDToken == nil || answer.AccessToken == nil || answer.RefreshToken == nil {
		return Tokens{}, errors.New("the answer is not the JSON of id_token, access_token and refresh_token")
	}
	t := Tokens{IDToken: Secret(*answer.IDToken), AccessToken: Secret(*answer.AccessToken), RefreshToken: Secret(*answer.RefreshToken)}
	if t.Claims, err = ParseIDClaims(t.IDToken); err != nil {
		return Tokens{}, fmt.Errorf("id_token: %w", err)
	}
	return t, nil
}

// exchangeKey exchanges an id_token for an API key. Not every account gets one.
func (a *Authority) exchangeKey(ctx context.Context, issuer, clientID string, id Secret) (Secret, error) {
	got, err := a.postForm(ctx, request{url: issuer + "/oauth/token", anonymous: true},
		param("grant_type", "urn:ietf:params:oauth:grant-type:token-exchange"), param("client_id", clientID),
		param("requested_token", "openai-api-key"), param("subject_token", id.Reveal()),
		param("subject_token_type", "urn:ietf:params:oauth:token-type:id_token"))
	if err != nil {
		return "", err
	}
	var answer struct {
		Key string `json:"access_token"`
	}
	switch {
	case !got.ok():
		return "", fmt.Errorf("API key exchange failed with status %s: %s", got.statusText(), got.detail())
	case jsonwire.Unmarshal(got.body, &answer) != nil || answer.Key == "":
		return "", errors.New("API key exchange failed: the answer has no key")
	default:
		return Secret(answer.Key), nil
	}
}

// issuerOr returns an issuer without trailing slashes, or the public one.
func issuerOr(issuer string) string {
	if issuer = strings.TrimRight(strings.TrimSpace(issuer), "/"); issuer != "" {
		return issuer
	}
	return defaultIssuer
}
