package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"codex.internal/pkg/wire/secret"
)

// Credential proves on whose behalf this program acts. It is safe for concurrent use.
type Credential interface {
	// Mode returns the kind of the credential.
	Mode() Mode
	// Authorize adds the headers that prove it. It may request fresh tokens from the identity
	// service. When the context ends, it returns at once, or within two seconds if tokens are being
	// refreshed.
	Authorize(ctx context.Context, header http.Header) error
	// Describe describes the kind of sign-in, without secrets.
	Describe() string
}

// Same reports whether two credentials are equal. It returns false for credentials that change over
// time, because their equality cannot be determined.
func Same(a, b Credential) bool {
	switch a := a.(type) {
	case rendezvousToken:
		return a == b
	case registrationBearer:
		return a == b
	case *apiKey:
		b, ok := b.(*apiKey)
		return ok && *a == *b
	case *accessToken:
		b, ok := b.(*accessToken)
		return ok && *a == *b
	default:
		return false
	}
}

// setHeaders sets the headers of all kinds of credentials.
func setHeaders(header http.Header, authorization, account string, fedRAMP bool) {
	header.Set("Authorization", authorization)
	if account != "" {
		header.Set("Chatgpt-Account-Id", account)
	}
	if fedRAMP {
		header.Set("X-Openai-Fedramp", "true")
	}
}

// apiKey is a key of the API.
type apiKey struct {
	secret.Unprinted
	key Secret
}

func (*apiKey) Mode() Mode { return ModeAPIKey }

func (c *apiKey) Authorize(_ context.Context, header http.Header) error {
	setHeaders(header, "Bearer "+c.key.Reveal(), "", false)
	return nil
}

func (c *apiKey) Describe() string { return "Logged in using an API key - " + maskKey(c.key) }

// rendezvousToken is a credential for the user's own rendezvous service.
type rendezvousToken struct{ token Secret }

func (rendezvousToken) Mode() Mode { return ModeRendezvous }

func (c rendezvousToken) Authorize(_ context.Context, header http.Header) error {
	setHeaders(header, "Bearer "+c.token.Reveal(), "", false)
	return nil
}

func (rendezvousToken) Describe() string { return "Using CODEX_RENDEZVOUS_TOKEN" }

// registrationBearer is a token for registering that the program got when it was started.
type registrationBearer struct {
	secret.Unprinted
	token Secret
}

func (registrationBearer) Mode() Mode { return ModeRendezvous }

func (c registrationBearer) Authorize(_ context.Context, header http.Header) error {
	setHeaders(header, "Bearer "+c.token.Reveal(), "", false)
	return nil
}

func (registrationBearer) Describe() string { return "Using a registration bearer" }

// maskKey shows only the ends of a key that is long enough.
func maskKey(key Secret) string {
	k := key.Reveal()
	if len(k) <= 13 {
		return "***"
	}
	return k[:8] + "***" + k[len(k)-5:]
}

// accessToken is a personal access token.
type accessToken struct {
	secret.Unprinted
	token Secret
	owner owner
}

func (*accessToken) Mode() Mode { return ModePersonalAccessToken }

func (c *accessToken) Authorize(_ context.Context, header http.Header) error {
	setHeaders(header, "Bearer "+c.token.Reveal(), c.owner.accountID, c.owner.fedRAMP)
	return nil
}

func (*accessToken) Describe() string { return "Logged in using personal access token" }

// chatGPT has the tokens of a ChatGPT account. They are refreshed shortly before they expire.
type chatGPT struct {
	secret.Unprinted
	authority *Authority
	store     Store
	log       *slog.Logger

	turn chan struct{} // held by the goroutine that may use the fields below

	current *Auth
	// seen are the stored tokens at the last read. If the stored tokens differ now, another program
	// has refreshed them or signed in.
	seen Tokens
	// refused is a refresh token that is no longer valid, and the reason. It is not tried again.
	refused    Secret
	refusedErr error
}

func newChatGPT(authority *Authority, store Store, log *slog.Logger, a *Auth) *chatGPT {
	c := &chatGPT{authority: authority, store: store, log: log, current: a, seen: *a.Tokens, turn: make(chan struct{}, 1)}
	c.turn <- struct{}{}
	return c
}

func (c *chatGPT) Mode() Mode     { return ModeChatGPT }
func (*chatGPT) Describe() string { return "Logged in using ChatGPT" }

// Authorize adds the headers. If a token should have been refreshed but the refresh failed,
// Authorize still uses it: the service decides whether it is still valid.
func (c *chatGPT) Authorize(ctx context.Context, header http.Header) error {
	select {
	case <-c.turn:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { c.turn <- struct{}{} }()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if err := c.refresh(ctx); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		c.log.Warn("the access token was not refreshed", "error", err)
	}
	t := c.current.Tokens
	setHeaders(header, "Bearer "+t.AccessToken.Reveal(), t.AccountID, t.Claims.FedRAMP)
	return nil
}

// refresh refreshes the tokens if they are due. The caller must hold the turn.
func (c *chatGPT) refresh(ctx context.Context) error {
	if !refreshDue(c.current, c.authority.now()) {
		return nil
	}
	// Another program may have changed the stored tokens in the meantime.
	stored, changed, err := c.reload()
	if err != nil || changed {
		return err
	}
	old := *c.current.Tokens
	if c.refused != "" && c.refused == old.RefreshToken {
		return c.refusedErr
	}
	// Returning now could lose the new tokens, after the refresh token has been used up.
	late, cancel := lingering(ctx, refreshGrace)
	defer cancel()
	tokens, err := c.authority.refresh(late, old)
	if err != nil {
		// Another process may meanwhile have used up the refresh token and stored new tokens.
		if _, changed, _ := c.reload(); changed {
			return nil
		}
		return c.refuse(err)
	}
	c.current = stored.withTokens(tokens, c.authority.now())
	if err := c.store.Save(c.current); err != nil {
		return fmt.Errorf("store the refreshed tokens: %w", err)
	}
	c.seen = tokens
	return nil
}

// lingering returns a context that continues for some time after ctx has ended.
func lingering(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	late, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(d, func() { cancel(context.Cause(ctx)) })
		context.AfterFunc(late, func() { timer.Stop() })
	})
	return late, func() { stop(); cancel(nil) }
}

// reload reads the stored tokens, and uses them if they differ from those seen before. The caller
// must hold the turn.
func (c *chatGPT) reload() (stored *Auth, changed bool, err error) {
	stored, err = c.store.Load()
	switch {
	case err != nil && !errors.Is(err, ErrNoAuth):
		return nil, false, fmt.Errorf("read the stored credentials: %w", err)
	case err != nil || stored.Tokens == nil || stored.Tokens.AccountID != c.current.Tokens.AccountID:
		return nil, false, &RefreshError{Message: accountChanged, Permanent: true}
	case *stored.Tokens == c.seen:
		return stored, false, nil
	}
	c.current, c.seen = stored, *stored.Tokens
	return stored, true, nil
}

// refuse remembers a permanent failure.
func (c *chatGPT) refuse(err error) error {
	var e *RefreshError
	if errors.As(err, &e) && e.Permanent {
		c.refused, c.refusedErr = c.current.Tokens.RefreshToken, err
	}
	return err
}
