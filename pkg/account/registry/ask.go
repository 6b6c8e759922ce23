package registry

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"

	"codex.internal/pkg/host/contentcoding"
	"codex.internal/pkg/relay/noise"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/secret"
)

type registerRequest struct {
	SecurityProfile string          `json:"security_profile"`
	ExecutorKey     noise.PublicKey `json:"executor_public_key"`
}

type connectRequest struct {
	HarnessKey noise.PublicKey `json:"harness_public_key"`
}

type validateRequest struct {
	secret.Unprinted
	RegistrationID string          `json:"executor_registration_id"`
	HarnessKey     noise.PublicKey `json:"harness_public_key"`
	Authorization  string          `json:"harness_key_authorization"`
	AcceptsGrant   bool            `json:"accepts_grant,omitempty"`
}

// ask posts a request about an environment and reads the answer.
func (c *Client) ask(ctx context.Context, timeout time.Duration, environmentID, verb string, question any, to jsonwire.Struct) error {
	switch environmentID {
	case "":
		return &ConfigError{"environment id is required for remote exec-server registration"}
	case ".", "..":
		return &ConfigError{fmt.Sprintf("environment id `%s` cannot be part of a URL", environmentID)}
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	body, err := json.Marshal(question)
	if err != nil {
		return fmt.Errorf("environment registry: encode the request: %w", err)
	}
	u := c.base.JoinPath("cloud", "environment", url.PathEscape(environmentID), verb)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, u.String(), bytes.NewReader(body))
	if err != nil {
		return &ConfigError{fmt.Sprintf("environment registry base URL: %v", err)}
	}
	if err := c.auth.Authorize(ctx, req.Header); err != nil {
		return &AuthorizationError{err}
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "*/*")
	req.Header.Set("Accept-Encoding", contentcoding.Accepted)
	req.Header["User-Agent"] = nil // Codex CLI has no limit
	resp, err := c.http.Do(req)
	if err != nil {
		var around *url.Error // the message contains the URL again
		if errors.As(err, &around) {
			err = around.Err
		}
		return &TransportError{u.Redacted(), err}
	}
	defer resp.Body.Close()
	contentcoding.Decode(resp)
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if resp.StatusCode/100 != 2 {
		return newStatusError(resp.StatusCode, text)
	}
	switch {
	case err != nil:
		return &DecodeError{Err: err, cut: !errors.Is(err, contentcoding.ErrBroken)}
	case len(text) > maxAnswer:
		return &DecodeError{Err: fmt.Errorf("the answer is longer than %d bytes", maxAnswer)}
	}
	return decode(text, to)
}

// validationError returns err without the registry's texts.
func validationError(ctx context.Context, err error) error {
	var status *StatusError
	var config *ConfigError
	var auth *AuthorizationError
	switch {
	case errors.Is(ctx.Err(), context.Canceled):
		return fmt.Errorf("%w: %w", ErrValidation, context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		// A deadline of the caller has the same error as this package's timeout.
		return ErrValidationTimeout
	case errors.As(err, &status) && status.refused():
		return &ValidationStatusError{status.Status}
	case errors.As(err, &config), errors.As(err, &auth):
		return err
	default:
		return ErrValidation
	}
}
