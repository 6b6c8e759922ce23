package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/secret"
)

// securityProfile is the only profile that exists.
const securityProfile = "noise_hybrid_ik_v1"

// Authorizer adds credentials to requests. It is called before each request, so that a program that
// runs for a long time can refresh its tokens. It must be safe for concurrent use.
type Authorizer interface {
	// Authorize adds the headers with the credentials. It must return promptly when the context
	// ends.
	Authorize(ctx context.Context, header http.Header) error
}

// AuthorizerFunc is a function that is an Authorizer.
type AuthorizerFunc func(ctx context.Context, header http.Header) error

// Authorize calls f.
func (f AuthorizerFunc) Authorize(ctx context.Context, header http.Header) error {
	return f(ctx, header)
}

// Bearer returns the Authorizer of a harness. It sends a token, and the id of the account that the
// token belongs to, which may be empty.
func Bearer(token, accountID string) Authorizer {
	return AuthorizerFunc(func(_ context.Context, header http.Header) error {
		header.Set("Authorization", "Bearer "+token)
		if accountID != "" {
			header.Set("Chatgpt-Account-Id", accountID)
		}
		return nil
	})
}

// Options are the options of a Client.
type Options struct {
	// BaseURL is the URL of the registry. Blanks around it and slashes at its end are ignored.
	BaseURL string
	// Authorizer adds the credentials to each request.
	Authorizer Authorizer
	// Transport sends the requests. nil: http.DefaultTransport, which accepts compressed answers,
	// unlike Codex CLI.
	Transport http.RoundTripper
}

// Client sends requests to one registry. It is safe for concurrent use and need not be closed.
type Client struct {
	secret.Unprinted
	base *url.URL
	auth Authorizer
	http *http.Client
}

// New returns a client. An error is a *ConfigError.
func New(o Options) (*Client, error) {
	base := strings.TrimRight(strings.TrimSpace(o.BaseURL), "/")
	if base == "" {
		return nil, &ConfigError{"environment registry base URL is required"}
	}
	u, err := url.Parse(base)
	switch {
	case err != nil:
		// The parser's error is not used, because it contains the whole URL, which may contain a
		// password.
		var wrong *url.Error
		if errors.As(err, &wrong) {
			err = wrong.Err
		}
		return nil, &ConfigError{fmt.Sprintf("environment registry base URL: %v", err)}
	case u.Scheme != "http" && u.Scheme != "https", u.Host == "":
		return nil, &ConfigError{fmt.Sprintf("environment registry base URL %s: expected http://HOST or https://HOST", u.Redacted())}
	case u.RawQuery != "" || u.ForceQuery || u.Fragment != "":
		return nil, &ConfigError{fmt.Sprintf("environment registry base URL %s: it must not have a query or a fragment", u.Redacted())}
	}
	return &Client{base: u, auth: o.Authorizer, http: &http.Client{
		Transport:     o.Transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}, nil
}

// Registration is the result of registering an executor.
type Registration struct {
	secret.Hidden
	// URL is the relay's URL for the executor. Its query may contain a credential.
	URL string
	// ID is the id of the registration, to which handshakes are bound. Codex CLI accepts an empty
	// id.
	ID string
	// AcceptsDescription is true if the service accepts a description of the
	// executor, in headers of the request for its websocket. A description must
	// not be sent to another service (docs/spec/relay.md §8.4).
	AcceptsDescription bool
	// SendsGrants means that the service sends a harness's grant if Claim.AcceptsGrant is set.
	// AcceptsGrant must not be set for any other service (docs/spec/relay.md §8.5).
	SendsGrants bool
}

// Grant has the permissions that a service reports for the token of a harness.
type Grant = tokens.Grant

// Connection is what a harness needs to connect to an executor once.
type Connection struct {
	secret.Hidden
	// URL is the relay's URL for the harness. Its query may contain a credential.
	URL string
	// RegistrationID is the id of the executor's registration, to which handshakes are bound.
	RegistrationID string
	// ExecutorKey is the key that the executor must have.
	ExecutorKey noise.PublicKey
	// Authorization is sent to the executor in the harness's handshake.
	Authorization string
	// AcceptsDescription is as in Registration, for the harness.
	AcceptsDescription bool
}

// Claim is what a harness has presented to an executor.
type Claim struct {
	secret.Hidden
	// RegistrationID is the id of the executor's registration.
	RegistrationID string
	// HarnessKey is the public key of the harness, for which the harness has proved that it has the
	// private key.
	HarnessKey noise.PublicKey
	// Authorization is the text that the harness sent.
	Authorization string
	// AcceptsGrant means that the executor enforces the grant in the answer.
	AcceptsGrant bool
}

// Register registers an executor with its key as the environment with an id. It takes at most 30
// seconds. An error is a *ConfigError, *AuthorizationError, *TransportError, *StatusError,
// *DecodeError or *ProtocolError.
func (c *Client) Register(ctx context.Context, environmentID string, key noise.PublicKey) (Registration, error) {
	environmentID = strings.TrimSpace(environmentID)
	var answer bundle
	err := c.ask(ctx, registerTimeout, environmentID, "register", registerRequest{securityProfile, key}, &answer)
	if err == nil {
		err = answer.check(environmentID)
	}
	if err != nil {
		return Registration{}, err
	}
	return Registration{URL: answer.url, ID: answer.registrationID, AcceptsDescription: answer.acceptsDescription, SendsGrants: answer.sendsGrants}, nil
}

// Connect requests how a harness with a key can connect to the environment with an id. The result
// is valid for one attempt. It takes at most 10 seconds. Errors are those of Register.
func (c *Client) Connect(ctx context.Context, environmentID string, key noise.PublicKey) (Connection, error) {
	environmentID = strings.TrimSpace(environmentID)
	var answer connectAnswer
	err := c.ask(ctx, connectTimeout, environmentID, "connect", connectRequest{key}, &answer)
	if err == nil {
		err = answer.check(environmentID)
	}
	if err != nil {
		return Connection{}, err
	}
	return Connection{
		URL: answer.url, RegistrationID: answer.registrationID,
		ExecutorKey: answer.executorKey, Authorization: answer.authorization, AcceptsDescription: answer.acceptsDescription,
	}, nil
}

// Validate asks whether the harness of a claim may connect to the environment with an id. If the
// error is nil, it may. Validate takes at most 10 seconds. Errors are those of Register, and
// ErrRejected, ErrValidationTimeout, ErrValidation and *ValidationStatusError. The errors must not
// be shown to the harness. They contain no text of the registry.
//
// The grant applies only to the handshake of the claim. It is nil if the service sends no grant for
// the harness's token.
func (c *Client) Validate(ctx context.Context, environmentID string, claim Claim) (*Grant, error) {
	answer := validateAnswer{acceptsGrant: claim.AcceptsGrant}
	err := c.ask(ctx, validateTimeout, strings.TrimSpace(environmentID), "validate",
		validateRequest{RegistrationID: claim.RegistrationID, HarnessKey: claim.HarnessKey, Authorization: claim.Authorization, AcceptsGrant: claim.AcceptsGrant}, &answer)
	if err != nil {
		return nil, validationError(ctx, err)
	}
	if !answer.valid {
		return nil, ErrRejected
	}
	return answer.grant, nil
}
