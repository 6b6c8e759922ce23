package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"

	"codex.internal/pkg/internal/tokens"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

// securityProfile is the only profile that exists.
const securityProfile = "noise_hybrid_ik_v1"

// These are the bodies of the API. All members are required.
type (
	registerRequest struct {
		SecurityProfile   string           `json:"security_profile"`
		ExecutorPublicKey *noise.PublicKey `json:"executor_public_key"`
	}
	registerResponse struct {
		secret.Unprinted
		EnvironmentID          string `json:"environment_id"`
		URL                    string `json:"url"`
		SecurityProfile        string `json:"security_profile"`
		ExecutorRegistrationID string `json:"executor_registration_id"`
		// AcceptsDescription announces that the request for the websocket may
		// describe its sender (docs/spec/relay.md §8.4).
		AcceptsDescription bool `json:"accepts_description"`
		// SendsGrants announces that the answer to validate may have a grant (docs/spec/relay.md §8.5).
		SendsGrants bool `json:"sends_grants"`
	}
	connectRequest struct {
		HarnessPublicKey *noise.PublicKey `json:"harness_public_key"`
	}
	connectResponse struct {
		secret.Unprinted
		registerResponse
		ExecutorPublicKey       noise.PublicKey `json:"executor_public_key"`
		HarnessKeyAuthorization string          `json:"harness_key_authorization"`
	}
	validateRequest struct {
		secret.Unprinted
		ExecutorRegistrationID  string           `json:"executor_registration_id"`
		HarnessPublicKey        *noise.PublicKey `json:"harness_public_key"`
		HarnessKeyAuthorization string           `json:"harness_key_authorization"`
		// AcceptsGrant says that the executor enforces a grant. Without it, a client whose token does not
		// permit everything is refused.
		AcceptsGrant bool `json:"accepts_grant"`
	}
	validateResponse struct {
		Valid bool          `json:"valid"`
		Grant *tokens.Grant `json:"grant,omitempty"`
	}
)

// apiError is an answer that reports a failure.
type apiError struct {
	status  int
	code    string // for programs
	message string // for people
}

func (e *apiError) Error() string { return e.message }

// writeError answers with an error's body: {"error":{"code","message"}}.
func writeError(w http.ResponseWriter, e *apiError) {
	type content struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	}
	writeJSON(w, e.status, struct {
		Error content `json:"error"`
	}{content{e.code, e.message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	data, err := json.Marshal(v)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_, _ = w.Write(data) // a client that is gone needs no answer
}

// These are the messages of records that any client can cause.
const (
	refusedCall       = "call refused"
	refusedConnection = "connection refused"
)

// call returns the handler of an API call. The handler authenticates the caller, checks the
// environment's id and reads the body.
func (s *Server) call(name string, serve func(*http.Request, *Token, string, []byte) (any, *apiError)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var answer any
		token, err := s.authenticate(bearer(r))
		if err == nil {
			answer, err = s.serveCall(name, w, r, token, serve)
		}
		if err != nil {
			s.metrics.request(name, err.status)
			args := []any{"call", name, "peer", r.RemoteAddr, "status", err.status, "code", err.code}
			if token != nil {
				args = append(args, "token", token.ID)
			}
			s.log.Info(refusedCall, args...)
			writeError(w, err)
			return
		}
		s.metrics.request(name, http.StatusOK)
		writeJSON(w, http.StatusOK, answer)
	}
}

func (s *Server) serveCall(
	name string, w http.ResponseWriter, r *http.Request, token *Token, serve func(*http.Request, *Token, string, []byte) (any, *apiError),
) (any, *apiError) {
	id := strings.TrimSpace(r.PathValue("id"))
	if refused := s.charge(name, token, id); refused != nil {
		return nil, refused
	}
	if err := checkEnvironmentID(id); err != nil {
		return nil, &apiError{http.StatusBadRequest, "invalid_environment_id", err.Error()}
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var large *http.MaxBytesError
	switch {
	case errors.As(err, &large):
		return nil, &apiError{http.StatusRequestEntityTooLarge, "body_too_large", fmt.Sprintf("the body exceeds %d bytes", maxBody)}
	case err != nil:
		// Clients retry after this status.
		return nil, &apiError{http.StatusRequestTimeout, "incomplete_body", "the body did not arrive"}
	}
	if refused := s.begin(); refused != nil {
		return nil, refused
	}
	defer s.wg.Done()
	ctx, cancel := context.WithTimeout(r.Context(), stateTime)
	defer cancel()
	return serve(r.WithContext(ctx), token, id, body)
}

// bearer returns the token of a request, or "" if the request has no well-formed token.
func bearer(r *http.Request) string {
	headers := r.Header.Values("Authorization")
	if len(headers) != 1 {
		return ""
	}
	scheme, secret, _ := strings.Cut(strings.TrimSpace(headers[0]), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(secret)
}

// authenticate returns the token with a given text.
func (s *Server) authenticate(secret string) (*Token, *apiError) {
	if secret == "" {
		return nil, &apiError{http.StatusUnauthorized, "missing_token", "this needs `authorization: Bearer TOKEN`; codex rendezvous token create makes one"}
	}
	token, err := s.opts.Tokens.Authenticate(secret)
	switch {
	case errors.Is(err, ErrBadToken):
		return nil, &apiError{http.StatusUnauthorized, "invalid_token", ErrBadToken.Error()}
	case err != nil:
		s.log.Error("cannot check a token", "error", err)
		return nil, &apiError{http.StatusServiceUnavailable, "tokens_unavailable", "the service cannot read its tokens"}
	default:
		return token, nil
	}
}

// charge counts a call against a limit. A validation counts for the environment, because harnesses
// decide how often its executor validates. Any other call counts for the token.
func (s *Server) charge(name string, token *Token, environment string) *apiError {
	accounts, id, of := s.tokens, token.ID, "with the token "+token.ID
	if name == callValidate && token.permits(RoleExecutor, environment, s.now()) {
		accounts, id, of = s.environments, environment, "to validate clients of this environment"
	}
	if _, ok := accounts.use(id, func(a *account) bool { return a.calls.Allow() }); !ok {
		return &apiError{http.StatusTooManyRequests, "rate_limited", "too many requests " + of + "; try again later"}
	}
	return nil
}

// permit returns an error if a token does not permit a role in an environment.
func (s *Server) permit(token *Token, role Role, environment string) *apiError {
	switch {
	case token.permits(role, environment, s.now()):
		return nil
	case !token.Role.allows(role):
		return &apiError{http.StatusForbidden, "role_not_allowed", fmt.Sprintf("the token is for the role %s, and this is for the role %s", token.Role, role)}
	default:
		return &apiError{http.StatusForbidden, "environment_not_allowed", fmt.Sprintf("the token is not good for environment %q", environment)}
	}
}

// decode reads a body.
func decode(body []byte, v any) *apiError {
	if err := jsonwire.Unmarshal(body, v); err != nil {
		return &apiError{http.StatusBadRequest, "invalid_body", "invalid body: " + err.Error()}
	}
	return nil
}

func missingMember(name string) *apiError {
	return &apiError{http.StatusBadRequest, "invalid_body", "invalid body: missing field `" + name + "`"}
}

// serveRegister registers an executor.
func (s *Server) serveRegister(r *http.Request, token *Token, id string, body []byte) (any, *apiError) {
	if err := s.permit(token, RoleExecutor, id); err != nil {
		return nil, err
	}
	var req registerRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if req.SecurityProfile != securityProfile {
		return nil, &apiError{http.StatusBadRequest, "unsupported_security_profile", fmt.Sprintf("security_profile must be %s", securityProfile)}
	}
	if req.ExecutorPublicKey == nil {
		return nil, missingMember("executor_public_key")
	}
	reg := Registration{
		ID: uuid.NewString(), Environment: id, Key: *req.ExecutorPublicKey, Token: token.ID,
		Expires: s.now().Add(ExecutorURLTime).UTC().Truncate(time.Second),
	}
	former, none := s.state.Newest(r.Context(), id)
	err := s.state.Register(r.Context(), reg)
	switch {
	case errors.Is(err, ErrTooMany):
		return nil, &apiError{http.StatusTooManyRequests, "too_many_environments", ErrTooMany.Error()}
	case err != nil:
		return nil, s.stateError(err)
	}
	s.log.Info("registered", "environment", id, "registration", reg.ID, "token", token.ID)
	if none == nil && former.Key != reg.Key {
		s.warnOfReplaced(r.Context(), &former)
	}
	return s.bundle(r, &reg, ticket{end: endExecutor, token: token.ID, expires: reg.Expires}), nil
}

// warnOfReplaced warns the operator about an executor that is connected but can no longer be found,
// because another executor registered under its name. Two executors may have been given the same
// name by mistake.
func (s *Server) warnOfReplaced(ctx context.Context, former *Registration) {
	if connected, err := s.bus.Bound(ctx, executorAddress(former.ID)); err == nil && connected {
		s.log.Warn("another executor of that name is still connected; clients cannot reach it until it registers again",
			"environment", former.Environment, "registration", former.ID, "token", former.Token)
	}
}

// stateError is the answer when the state fails.
func (s *Server) stateError(err error) *apiError {
	s.log.Error("the state of the service cannot be used", "error", err)
	if errors.Is(err, ErrUnavailable) {
		return &apiError{http.StatusServiceUnavailable, "state_unavailable", ErrUnavailable.Error() + "; try again later"}
	}
	return &apiError{http.StatusInternalServerError, "state_unavailable", "the service cannot save its state"}
}

// offline is the answer when an executor is not connected.
func offline(environment string) *apiError {
	return &apiError{http.StatusServiceUnavailable, "environment_offline", fmt.Sprintf("the executor of environment %q is not connected", environment)}
}

// bundle is the part of a registration's answer that both ends get.
func (s *Server) bundle(r *http.Request, reg *Registration, t ticket) registerResponse {
	t.environment, t.registration, t.agent = reg.Environment, reg.ID, relay.ReadDescription(r.Header).Agent
	u := s.relayURL(r)
	u.RawQuery = t.query(s.urls)
	return registerResponse{
		EnvironmentID: reg.Environment, URL: u.String(), SecurityProfile: securityProfile, ExecutorRegistrationID: reg.ID,
		AcceptsDescription: true, SendsGrants: true,
	}
}

// serveConnect sends a harness the data to reach an executor. If no executor is connected, it
// answers with an error after which clients retry.
func (s *Server) serveConnect(r *http.Request, token *Token, id string, body []byte) (any, *apiError) {
	if err := s.permit(token, RoleHarness, id); err != nil {
		return nil, err
	}
	var req connectRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if req.HarnessPublicKey == nil {
		return nil, missingMember("harness_public_key")
	}
	reg, err := s.state.Newest(r.Context(), id)
	switch {
	case errors.Is(err, ErrNotRegistered):
		return nil, &apiError{http.StatusServiceUnavailable, "environment_not_registered", fmt.Sprintf("no executor has registered environment %q", id)}
	case err != nil:
		return nil, s.stateError(err)
	}
	connected, err := s.bus.Bound(r.Context(), executorAddress(reg.ID))
	switch {
	case err != nil:
		return nil, s.busError(err)
	case !connected:
		return nil, offline(id)
	}
	now := s.now()
	identity := keyDigest(*req.HarnessPublicKey)
	t := ticket{end: endHarness, token: token.ID, identity: identity + token.access(), expires: now.Add(harnessURLTime)}
	return connectResponse{
		registerResponse:        s.bundle(r, &reg, t),
		ExecutorPublicKey:       reg.Key,
		HarnessKeyAuthorization: s.authorizations.make(grant{id, reg.ID, identity}, token.ID, s.state.Nonce(), now),
	}, nil
}

// serveValidate answers an executor whether a harness may use it. The reason for a refusal is
// logged but not sent.
func (s *Server) serveValidate(r *http.Request, token *Token, id string, body []byte) (any, *apiError) {
	if err := s.permit(token, RoleExecutor, id); err != nil {
		return nil, err
	}
	var req validateRequest
	if err := decode(body, &req); err != nil {
		return nil, err
	}
	if req.HarnessPublicKey == nil {
		return nil, missingMember("harness_public_key")
	}
	grant, why, err := s.invalid(r.Context(), &req, token, id)
	if err != nil {
		return nil, s.stateError(err)
	}
	if why != "" {
		registration := req.ExecutorRegistrationID
		s.log.Warn("harness refused", "environment", id, "registration", registration[:min(len(registration), maxRegistrationID)], "reason", why)
	}
	if !req.AcceptsGrant {
		grant = nil
	}
	return validateResponse{Valid: why == "", Grant: grant}, nil
}

// invalid returns the reason to refuse a harness, or "" to admit it. The error is one of the state.
func (s *Server) invalid(ctx context.Context, req *validateRequest, token *Token, id string) (*tokens.Grant, string, error) {
	const unknown = "the registration is not one of the environment"
	if len(req.ExecutorRegistrationID) > maxRegistrationID {
		return nil, unknown, nil
	}
	reg, err := s.state.Find(ctx, req.ExecutorRegistrationID)
	if err != nil && !errors.Is(err, ErrNotRegistered) {
		return nil, "", err
	}
	if err != nil || reg.Environment != id {
		return nil, unknown, nil
	}
	if reg.Token != token.ID && s.checkToken(reg.Token, RoleExecutor, id, "") == nil {
		return nil, "the registration is another token's", nil
	}
	a, ok := s.authorizations.read(req.HarnessKeyAuthorization, grant{id, reg.ID, keyDigest(*req.HarnessPublicKey)}, s.now())
	if !ok {
		return nil, "the authorization is not valid", nil
	}
	ok, err = s.state.Spend(ctx, a.nonce, a.until)
	if err != nil {
		return nil, "", err
	}
	if !ok {
		return nil, "the authorization was used before", nil
	}
	harness, err := s.opts.Tokens.Find(a.token)
	switch {
	case err != nil && !errors.Is(err, ErrBadToken):
		return nil, "", err // what the token permits is not known
	case err != nil || !harness.permits(RoleHarness, id, s.now()):
		return nil, "the harness's " + closeRevoked.Error(), nil
	}
	grant := harness.grant()
	if grant.Limited() && !req.AcceptsGrant {
		return nil, "the executor enforces no roles, and the harness's token has one", nil
	}
	return grant, "", nil
}
