package signin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"codex.internal/pkg/wire/websocket"
)

// The variables that hold credentials.
const (
	variableRendezvous  = "CODEX_RENDEZVOUS_TOKEN"
	variableAPIKey      = "CODEX_API_KEY"
	variableAccessToken = "CODEX_ACCESS_TOKEN"
)

// Variables are the names of all variables that hold credentials.
var Variables = []string{variableRendezvous, variableAPIKey, variableAccessToken}

// needAuth begins the errors for a user who is not signed in, or not in the right way.
const needAuth = "remote exec-server registration requires ChatGPT authentication or API key authentication; "

var (
	// ErrNotSignedIn means that there are no credentials to register with.
	ErrNotSignedIn = errors.New(needAuth + "run `codex login` or set CODEX_API_KEY")
	// ErrAgentNotAsked says that there are credentials, but those of an agent,
	// whose use has to be asked for.
	ErrAgentNotAsked = errors.New(needAuth + "Agent Identity auth requires --use-agent-identity-auth")
	// ErrNoAccessToken means that an agent is to be used and none is named.
	ErrNoAccessToken = errors.New("CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set")
	// ErrAPIKeyHost means that an API key would be sent to a host that must not have it.
	ErrAPIKeyHost = errors.New("remote exec-server API-key authentication is restricted to HTTPS openai.com and openai.org hosts and subdomains or loopback hosts")
	// ErrPlaintext means that a token would be sent over a connection that others can read.
	ErrPlaintext = errors.New("CODEX_RENDEZVOUS_TOKEN is sent over https, or to a loopback address, and nowhere else")
	// ErrBedrock means that the stored credentials are for another service.
	ErrBedrock = errors.New("the stored credentials are for Amazon Bedrock and of no use here")
)

// The errors for an auth.json that lacks the credentials of its auth_mode.
var (
	errNoKey   = errors.New("API key auth is missing a key.")                                 //lint:ignore ST1005 Codex CLI's text
	errNoPAT   = errors.New("personal access token auth is missing a personal access token.") //lint:ignore ST1005 Codex CLI's text
	errNoAgent = errors.New("agent identity auth is missing agent identity auth material.")   //lint:ignore ST1005 Codex CLI's text
)

// Resolver finds credentials. It is safe for concurrent use.
type Resolver struct {
	// Getenv reads the environment.
	Getenv func(name string) string
	// Store has what was stored by signing in.
	Store Store
	// Authority is asked about tokens.
	Authority *Authority
	// ChatGPTBaseURL is where ChatGPT's backend is; empty: the public one.
	ChatGPTBaseURL string
	// Log gets warnings that are not errors for the caller.
	Log *slog.Logger
}

func (r *Resolver) variable(name string) Secret { return Secret(strings.TrimSpace(r.Getenv(name))) }

// Registration returns the credential with which an executor registers at the
// registry of a URL: CODEX_RENDEZVOUS_TOKEN, which is for no other purpose, or
// else CODEX_API_KEY, or else CODEX_ACCESS_TOKEN, or else what is stored.
// Credentials that cannot be used are skipped, and the reason is
// logged. An API key goes to few hosts only. Errors: ErrNotSignedIn,
// ErrAgentNotAsked, ErrAPIKeyHost, ErrPlaintext, others about the URL, and the
// context's.
func (r *Resolver) Registration(ctx context.Context, registryURL string) (Credential, error) {
	if token := r.variable(variableRendezvous); token != "" {
		u, err := registrationURL(registryURL)
		switch {
		case err != nil:
			return nil, err
		case u.Scheme != "https" && !websocket.IsLoopback(u.Hostname()):
			return nil, ErrPlaintext
		}
		return rendezvousToken{token}, nil
	}
	credential, err := r.any(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoAuth) {
		// Once more, like Codex CLI: somebody may have been writing it.
		r.Log.Debug("the credentials could not be loaded; trying again", "error", err)
		credential, err = r.any(ctx)
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, ErrNoAuth):
		return nil, ErrNotSignedIn
	case err != nil:
		r.Log.Warn("the credentials could not be loaded", "error", err)
		return nil, ErrNotSignedIn
	}
	switch credential.Mode() {
	case ModeAgentIdentity:
		return nil, ErrAgentNotAsked
	case ModeAPIKey:
		if err := checkAPIKeyHost(registryURL); err != nil {
			return nil, err
		}
		return credential, nil
	default:
		return credential, nil
	}
}

// AgentRegistration returns the credential of the agent that CODEX_ACCESS_TOKEN
// names, with a task of its own; nothing else is looked at.
func (r *Resolver) AgentRegistration(ctx context.Context) (Credential, error) {
	token := r.variable(variableAccessToken)
	if token == "" {
		return nil, ErrNoAccessToken
	}
	return orNil(r.Authority.agentFromJWT(ctx, token, r.ChatGPTBaseURL))
}

// any returns the first credential that there is.
func (r *Resolver) any(ctx context.Context) (Credential, error) {
	if key := r.variable(variableAPIKey); key != "" {
		return &apiKey{key: key}, nil
	}
	return r.SignedIn(ctx)
}

// SignedIn returns the credential of CODEX_ACCESS_TOKEN, or else what is
// stored. An error is ErrNoAuth if there is none.
func (r *Resolver) SignedIn(ctx context.Context) (Credential, error) {
	if token := r.variable(variableAccessToken); token != "" {
		if isPAT(token) {
			return r.accessToken(ctx, token)
		}
		return orNil(r.Authority.agentFromJWT(ctx, token, r.ChatGPTBaseURL))
	}
	a, err := r.Store.Load()
	if err != nil {
		return nil, err
	}
	switch a.Mode {
	case ModeAPIKey:
		if a.APIKey == "" {
			return nil, errNoKey
		}
		return &apiKey{key: a.APIKey}, nil
	case ModePersonalAccessToken:
		if a.PersonalAccessToken == "" {
			return nil, errNoPAT
		}
		return r.accessToken(ctx, a.PersonalAccessToken)
	case ModeAgentIdentity:
		if a.AgentIdentity == "" {
			return nil, errNoAgent
		}
		return orNil(r.Authority.agentFromStore(ctx, a.AgentIdentity, r.ChatGPTBaseURL))
	case ModeBedrockAPIKey:
		return nil, ErrBedrock
	default:
		if a.Tokens == nil {
			return nil, ErrNoAuth
		}
		return newChatGPT(r.Authority, r.Store, r.Log, a), nil
	}
}

func (r *Resolver) accessToken(ctx context.Context, token Secret) (Credential, error) {
	o, err := r.Authority.whoami(ctx, token)
	if err != nil {
		return nil, err
	}
	return &accessToken{token: token, owner: o}, nil
}

// orNil makes no credential of no agent.
func orNil(a *agent, err error) (Credential, error) {
	if err != nil {
		return nil, err
	}
	return a, nil
}

// registrationURL parses the URL of a registry. The texts of errors about its scheme,
// host or port are Codex CLI's.
func registrationURL(text string) (*url.URL, error) {
	const invalid = "invalid remote exec-server registration URL: "
	text = strings.TrimSpace(text)
	scheme, rest, found := strings.Cut(text, ":")
	if !found || !isScheme(scheme) {
		return nil, errors.New(invalid + "relative URL without a base")
	}
	if strings.EqualFold(scheme, "http") || strings.EqualFold(scheme, "https") {
		if fault := hostFault(rest); fault != "" {
			return nil, errors.New(invalid + fault)
		}
	}
	u, err := url.Parse(text)
	var wrong *url.Error
	switch {
	case errors.As(err, &wrong):
		return nil, fmt.Errorf(invalid+"%w", wrong.Err)
	case err != nil:
		return nil, fmt.Errorf(invalid+"%w", err)
	case u.Hostname() == "":
		return nil, errors.New("remote exec-server registration URL must include a host")
	}
	return u, nil
}

// isScheme reports whether a text can be what a URL begins with.
func isScheme(text string) bool {
	for i, c := range text {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return false
		}
	}
	return text != ""
}

// hostFault says what Codex CLI finds wrong with the host of a URL, which
// is given without its scheme; empty: nothing that is said here.
func hostFault(rest string) string {
	authority := strings.TrimLeft(rest, `/\`)
	if end := strings.IndexAny(authority, `/\?#`); end >= 0 {
		authority = authority[:end]
	}
	host := authority[strings.LastIndex(authority, "@")+1:]
	port := ""
	if colon := strings.LastIndex(host, ":"); colon > strings.LastIndex(host, "]") {
		host, port = host[:colon], host[colon+1:]
	}
	address, bracket := strings.CutPrefix(host, "[")
	address, closed := strings.CutSuffix(address, "]")
	ip, ipErr := netip.ParseAddr(address)
	_, portErr := strconv.ParseUint(port, 10, 16)
	switch {
	case host == "":
		return "empty host"
	case bracket && (!closed || ipErr != nil || !ip.Is6() || ip.Zone() != ""):
		return "invalid IPv6 address"
	case strings.ContainsAny(host, " <>^|"):
		return "invalid international domain name"
	case port != "" && portErr != nil:
		return "invalid port number"
	default:
		return ""
	}
}

// checkAPIKeyHost checks that an API key may be sent to a URL.
func checkAPIKeyHost(text string) error {
	u, err := registrationURL(text)
	if err != nil {
		return err
	}
	host := strings.ToLower(u.Hostname())
	ours := under(host, "openai.com") || under(host, "openai.org")
	if u.Scheme == "https" && (ours || websocket.IsLoopback(host)) || u.Scheme == "http" && websocket.IsLoopback(host) {
		return nil
	}
	return ErrAPIKeyHost
}

// under reports whether a host is a domain or below it.
func under(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}
