package signin

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Login signs in and out. It gets credentials and stores them. Only one goroutine at a time may use
// it.
type Login struct {
	// Authority is the identity service that issues tokens.
	Authority *Authority
	// Store stores the credentials.
	Store Store
	// ChatGPTBaseURL is the URL of ChatGPT's backend; empty: the public one.
	ChatGPTBaseURL string
	// Workspaces are the ids of the workspaces in which the user may sign in. If the list is empty,
	// any workspace is permitted.
	Workspaces []string
}

// APIKey stores an API key. It is neither checked nor sent anywhere.
func (l *Login) APIKey(key Secret) error { return l.Store.Save(NewAPIKey(key)) }

// AccessToken stores an access token. It first asks the service for the owner of a personal access
// token, or verifies the signature of an agent's JWT.
func (l *Login) AccessToken(ctx context.Context, token Secret) error {
	if isPAT(token) {
		o, err := l.Authority.whoami(ctx, token)
		if err == nil {
			err = l.checkWorkspace(o.accountID)
		}
		if err != nil {
			return err
		}
		return l.Store.Save(NewPersonalAccessToken(token))
	}
	if err := l.Authority.verifyAgentIdentity(ctx, token, l.ChatGPTBaseURL); err != nil {
		return err
	}
	record, err := decodeAgentJWT(token)
	if err == nil {
		err = l.checkWorkspace(record.AccountID)
	}
	if err != nil {
		return err
	}
	return l.Store.Save(NewAgentIdentity(token))
}

// checkWorkspace returns an error if the user may not sign in to an account.
func (l *Login) checkWorkspace(accountID string) error {
	if len(l.Workspaces) == 0 {
		return nil
	}
	if accountID == "" {
		//lint:ignore ST1005 Codex CLI's text
		return errors.New("Login is restricted to a specific workspace, but the token did not include an chatgpt_account_id claim.")
	}
	if slices.Contains(l.Workspaces, accountID) {
		return nil
	}
	//lint:ignore ST1005 Codex CLI's text
	return fmt.Errorf("Login is restricted to workspace id(s) %s.", strings.Join(l.Workspaces, ", "))
}

// save stores the credentials of a ChatGPT sign-in.
func (l *Login) save(tokens Tokens, key Secret) error {
	tokens.AccountID = tokens.Claims.AccountID
	if err := l.checkWorkspace(tokens.AccountID); err != nil {
		return err
	}
	return l.Store.Save(NewChatGPT(tokens, key, l.Authority.now()))
}

// Logout revokes the tokens of a ChatGPT account, unless they belong to another program, and
// deletes the stored credentials. It reports whether there were any. If the tokens cannot be
// revoked or the file cannot be read, it calls warn and still deletes the file.
func (l *Login) Logout(ctx context.Context, warn func(error)) (bool, error) {
	stored, err := l.Store.Load()
	switch {
	case err != nil && !errors.Is(err, ErrNoAuth):
		warn(fmt.Errorf("read the stored credentials: %w", err))
	case err == nil && stored.Tokens != nil && stored.Mode == ModeChatGPT:
		if err := l.Authority.revoke(ctx, *stored.Tokens); err != nil {
			warn(fmt.Errorf("revoke the tokens: %w", err))
		}
	}
	return l.Store.Delete()
}

// revoke notifies the identity service that tokens are no longer used. It sends the refresh token,
// which ends all tokens. If there is none, it sends the only token that exists.
func (a *Authority) revoke(ctx context.Context, t Tokens) error {
	type body struct {
		Token    string `json:"token"`
		Hint     string `json:"token_type_hint"`
		ClientID string `json:"client_id,omitempty"`
	}
	b := body{t.RefreshToken.Reveal(), "refresh_token", a.clientID()}
	if t.RefreshToken == "" {
		b = body{t.AccessToken.Reveal(), "access_token", ""}
	}
	if b.Token == "" {
		return nil
	}
	got, err := a.postJSON(ctx, request{url: a.revokeURL(), timeout: revokeTimeout}, b)
	if err == nil && !got.ok() {
		err = fmt.Errorf("%s: %s", got.statusText(), got.detail())
	}
	return err
}
