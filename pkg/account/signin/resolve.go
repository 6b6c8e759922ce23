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

// These variables contain credentials.
const (
	variableRendezvous  = "CODEX_RENDEZVOUS_TOKEN"
	variableAPIKey      = "CODEX_API_KEY"
	variableAccessToken = "CODEX_ACCESS_TOKEN"
)

// Variables are the names of all variables that contain credentials.
var Variables = []string{variableRendezvous, variableAPIKey, variableAccessToken}

// needAuth is the beginning of the errors for a user who is not signed in, or is signed in with a
// method that cannot be used.
const needAuth = "remote exec-server registration requires ChatGPT authentication or API key authentication; "

var (
	// ErrNotSignedIn means that there are no credentials to register with.
	ErrNotSignedIn = errors.New(needAuth + "run `codex login` or set CODEX_API_KEY")
	// ErrAgentNotAsked means that the only credentials are an agent's, which
	// must be requested explicitly.
	ErrAgentNotAsked = errors.New(needAuth + "Agent Identity auth requires --use-agent-identity-auth")
	// ErrNoAccessToken means that an agent was requested but the variable for it is not
	// set.
	ErrNoAccessToken = errors.New("CODEX_ACCESS_TOKEN is required when --use-agent-identity-auth is set")
	// ErrAPIKeyHost means that an API key would be sent to a host that must not get it.
	ErrAPIKeyHost = errors.New("remote exec-server API-key authentication is restricted to HTTPS openai.com and openai.org hosts and subdomains or loopback hosts")
	// ErrPlaintext means that a token would be sent over a connection that others can read.
	ErrPlaintext = errors.New("CODEX_RENDEZVOUS_TOKEN is sent only over https, or to a loopback address")
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
	// Store contains the credentials from signing in.
	Store Store
	// Authority is used for requests about tokens.
	Authority *Authority
	// ChatGPTBaseURL is the URL of ChatGPT's backend; empty: the public one.
	ChatGPTBaseURL string
	// Log gets warnings that are not errors for the caller.
	Log *slog.Logger
}

func (r *Resolver) variable(name string) Secret { return Secret(strings.TrimSpace(r.Getenv(name))) }

// Registration returns the credential with which an executor registers at the registry with a URL.
// It uses the first of these: CODEX_RENDEZVOUS_TOKEN, which has no other purpose; CODEX_API_KEY;
// CODEX_ACCESS_TOKEN; the stored credentials. Unusable credentials are skipped, and the reason is
// logged. An API key is sent only to a few hosts. The error is ErrNotSignedIn, ErrAgentNotAsked,
// ErrAPIKeyHost, ErrPlaintext, another error about the URL, or the context's error.
func (r *Resolver) Registration(ctx context.Context, registryURL string) (Credential, error) {
	if token := r.variable(variableRendezvous); token != "" {
		return RendezvousRegistration(token, registryURL)
	}
	credential, err := r.any(ctx)
	if err != nil && ctx.Err() == nil && !errors.Is(err, ErrNoAuth) {
		// Try once more, as Codex CLI does, because another program may have been writing the file.
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

// RendezvousRegistration returns the credential of a token for the rendezvous service with a URL.
// The error is ErrPlaintext, or another one about the URL.
func RendezvousRegistration(token Secret, registryURL string) (Credential, error) {
	u, err := registrationURL(registryURL)
	switch {
	case err != nil:
		return nil, err
	case u.Scheme != "https" && !websocket.IsLoopback(u.Hostname()):
		return nil, ErrPlaintext
	}
	return rendezvousToken{token}, nil
}

// AgentRegistration returns the credential of the agent in CODEX_ACCESS_TOKEN, with its own task.
// It ignores all other credentials.
func (r *Resolver) AgentRegistration(ctx context.Context) (Credential, error) {
	token := r.variable(variableAccessToken)
	if token == "" {
		return nil, ErrNoAccessToken
	}
	return orNil(r.Authority.agentFromJWT(ctx, token, r.ChatGPTBaseURL))
}

// any returns the first credential that is not nil.
func (r *Resolver) any(ctx context.Context) (Credential, error) {
	if key := r.variable(variableAPIKey); key != "" {
		return &apiKey{key: key}, nil
	}
	return r.SignedIn(ctx)
}

// SignedIn returns the credential of CODEX_ACCESS_TOKEN, or else the stored
// one. The error is ErrNoAuth if there is none.
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

// orNil returns a nil Credential for a nil agent.
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

// isScheme reports whether a text is a valid URL scheme.
func isScheme(text string) bool {
	for i, c := range text {
		letter := 'a' <= c|0x20 && c|0x20 <= 'z'
		if !letter && (i == 0 || !strings.ContainsRune("0123456789+-.", c)) {
			return false
		}
	}
	return text != ""
}

// hostFault returns Codex CLI's error about the host of a URL. The URL is passed without its
// scheme. It returns "" if there is no such error.
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

// under reports whether a host is a domain or is below it.
func under(host, domain string) bool {
	return host == domain || strings.HasSuffix(host, "."+domain)
}
