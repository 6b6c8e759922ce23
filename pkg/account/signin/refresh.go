package signin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"codex.internal/pkg/wire/jsonwire"
)

// RefreshError means that an access token could not be refreshed.
type RefreshError struct {
	// Message is a text for people.
	Message string
	// Permanent means that no further attempt will succeed: the user must sign
	// in again.
	Permanent bool
	// Err is the reason, if there was no answer.
	Err error
}

func (e *RefreshError) Error() string { return e.Message }

// Unwrap returns the reason.
func (e *RefreshError) Unwrap() error { return e.Err }

const (
	refreshPrefix  = "Your access token could not be refreshed"
	signInAgain    = " Please log out and sign in again."
	accountChanged = refreshPrefix + " because you have since logged out or signed in to another account. Please sign in again."
)

// permanentCodes are the codes of permanent failures.
var permanentCodes = map[string]string{
	"refresh_token_expired":     refreshPrefix + " because your refresh token has expired." + signInAgain,
	"refresh_token_reused":      refreshPrefix + " because your refresh token was already used." + signInAgain,
	"refresh_token_invalidated": refreshPrefix + " because your refresh token was revoked." + signInAgain,
}

// refreshDue reports whether the access token of a ChatGPT account must be refreshed. If another
// program has lent the tokens, that program refreshes them.
func refreshDue(a *Auth, now time.Time) bool {
	if a.Tokens.RefreshToken == "" || a.Mode == ModeChatGPTAuthTokens {
		return false
	}
	if end, known := expiry(a.Tokens.AccessToken); known {
		return !end.After(now.Add(refreshAhead))
	}
	return !a.LastRefresh.IsZero() && a.LastRefresh.Before(now.Add(-refreshAge))
}

// refresh exchanges old tokens for new ones. The error is a *RefreshError.
func (a *Authority) refresh(ctx context.Context, old Tokens) (Tokens, error) {
	type body struct {
		ClientID     string `json:"client_id"`
		GrantType    string `json:"grant_type"`
		RefreshToken string `json:"refresh_token"`
	}
	got, err := a.postJSON(ctx, request{url: a.refreshURL()}, body{a.clientID(), "refresh_token", old.RefreshToken.Reveal()})
	if err != nil {
		return Tokens{}, &RefreshError{Message: fmt.Sprintf("Failed to refresh token: %v", err), Err: err}
	}
	if !got.ok() {
		return Tokens{}, refreshFailure(got)
	}
	var fresh struct {
		IDToken      string `json:"id_token"`
		AccessToken  string `json:"access_token"`
		RefreshToken string `json:"refresh_token"`
	}
	if err := jsonwire.Unmarshal(got.body, &fresh); err != nil {
		return Tokens{}, &RefreshError{Message: "Failed to refresh token: the answer is not the JSON of tokens"}
	}
	tokens := old
	if fresh.IDToken != "" {
		tokens.IDToken = Secret(fresh.IDToken)
		if tokens.Claims, err = ParseIDClaims(tokens.IDToken); err != nil {
			return Tokens{}, &RefreshError{Message: fmt.Sprintf("Failed to refresh token: id_token: %v", err), Err: err}
		}
	}
	if fresh.AccessToken != "" {
		tokens.AccessToken = Secret(fresh.AccessToken)
	}
	if fresh.RefreshToken != "" {
		tokens.RefreshToken = Secret(fresh.RefreshToken)
	}
	return tokens, nil
}

// refreshFailure is the error for an answer that is not a success.
func refreshFailure(got answer) *RefreshError {
	f := got.failure()
	if message, known := permanentCodes[strings.ToLower(f.code)]; known {
		return &RefreshError{Message: message, Permanent: true}
	}
	if got.status == http.StatusUnauthorized {
		return &RefreshError{Message: refreshPrefix + "." + signInAgain, Permanent: true}
	}
	return &RefreshError{Message: fmt.Sprintf("Failed to refresh token: %s: %s", got.statusText(), got.detail())}
}
