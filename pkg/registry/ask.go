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
	"strings"
	"time"

	"codex.internal/pkg/httpclient"
	"codex.internal/pkg/noiseik"
)

type registerRequest struct {
	SecurityProfile string            `json:"security_profile"`
	ExecutorKey     noiseik.PublicKey `json:"executor_public_key"`
}

type connectRequest struct {
	HarnessKey noiseik.PublicKey `json:"harness_public_key"`
}

type validateRequest struct {
	RegistrationID string            `json:"executor_registration_id"`
	HarnessKey     noiseik.PublicKey `json:"harness_public_key"`
	Authorization  string            `json:"harness_key_authorization"`
}

// bundle is the answer to a registration. All of its members are required.
type bundle struct {
	EnvironmentID   *string `json:"environment_id"`
	URL             *string `json:"url"`
	SecurityProfile *string `json:"security_profile"`
	RegistrationID  *string `json:"executor_registration_id"`
}

func (b *bundle) complete() bool {
	return b.EnvironmentID != nil && b.URL != nil && b.SecurityProfile != nil && b.RegistrationID != nil
}

// check checks that the answer is about what was asked.
func (b *bundle) check(environmentID string) error {
	switch {
	case *b.EnvironmentID != environmentID:
		return &ProtocolError{"environment registry returned a different environment id"}
	case *b.SecurityProfile != securityProfile:
		return &ProtocolError{fmt.Sprintf("environment registry returned unsupported security profile `%s`", cut(httpclient.PlainText(*b.SecurityProfile), maxPreview))}
	default:
		return nil
	}
}

// connectAnswer is the answer to the question how to connect.
type connectAnswer struct {
	bundle
	ExecutorKey   *noiseik.PublicKey `json:"executor_public_key"`
	Authorization *string            `json:"harness_key_authorization"`
}

func (a *connectAnswer) complete() bool {
	return a.bundle.complete() && a.ExecutorKey != nil && a.Authorization != nil
}

func (a *connectAnswer) check(environmentID string) error {
	if err := a.bundle.check(environmentID); err != nil {
		return err
	}
	for _, value := range []string{*a.URL, *a.RegistrationID, *a.Authorization} {
		if strings.TrimSpace(value) == "" {
			return &ProtocolError{"environment registry returned incomplete Noise connection data"}
		}
	}
	return nil
}

type validateAnswer struct {
	Valid *bool `json:"valid"`
}

func (a *validateAnswer) complete() bool { return a.Valid != nil }

// errIncomplete says that an answer lacks a member.
var errIncomplete = errors.New("a member is missing")

// decode reads an answer; what it has beyond is ignored.
func decode(body []byte, answer interface{ complete() bool }) error {
	if err := json.Unmarshal(body, answer); err != nil {
		if errors.Is(err, noiseik.ErrPublicKey) {
			return &ProtocolError{err.Error()}
		}
		return &DecodeError{Err: err}
	}
	if !answer.complete() {
		return &DecodeError{Err: errIncomplete}
	}
	return nil
}

// ask posts a question about an environment and reads the answer.
func (c *Client) ask(ctx context.Context, timeout time.Duration, environmentID, verb string, question any, answer interface{ complete() bool }) error {
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
	req.Header["User-Agent"] = nil // the reference has none
	resp, err := c.http.Do(req)
	if err != nil {
		var around *url.Error // says again where to
		if errors.As(err, &around) {
			err = around.Err
		}
		return &TransportError{u.Redacted(), err}
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if resp.StatusCode/100 != 2 {
		return newStatusError(resp.StatusCode, text)
	}
	switch {
	case err != nil:
		return &DecodeError{Err: err, cut: true}
	case len(text) > maxAnswer:
		return &DecodeError{Err: fmt.Errorf("the answer is longer than %d bytes", maxAnswer)}
	}
	return decode(text, answer)
}

// validationError is err without what the registry said.
func validationError(ctx context.Context, err error) error {
	var status *StatusError
	var config *ConfigError
	var auth *AuthorizationError
	switch {
	case ctx.Err() != nil:
		return fmt.Errorf("%w: %w", ErrValidation, context.Cause(ctx))
	case errors.Is(err, context.DeadlineExceeded):
		return ErrValidationTimeout
	case errors.As(err, &status) && status.refused():
		return &ValidationStatusError{status.Status}
	case errors.As(err, &config), errors.As(err, &auth):
		return err
	default:
		return ErrValidation
	}
}
