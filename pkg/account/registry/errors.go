package registry

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/wire/jsonwire"
)

var (
	// ErrRejected means that a harness may not connect.
	ErrRejected = errors.New("environment registry rejected Noise relay harness key")
	// ErrValidationTimeout means that the registry did not answer in time
	// whether a harness may connect.
	ErrValidationTimeout = errors.New("timed out validating Noise relay harness key")
	// ErrValidation means that it is unknown whether a harness may connect,
	// because the request failed. It contains nothing of the registry's answer,
	// which could contain the harness's authorization.
	ErrValidation = errors.New("environment registry harness key validation failed")
)

// ConfigError means that a registry cannot be asked because of its configuration.
type ConfigError struct{ Message string }

func (e *ConfigError) Error() string {
	return "environment registry configuration error: " + e.Message
}

// ProtocolError means that a registry's answer violates the protocol.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return "exec-server protocol error: " + e.Message }

// TransportError means that a registry was not reached or did not answer in time. Err is the
// reason.
type TransportError struct {
	URL string // without a password
	Err error
}

func (e *TransportError) Error() string {
	return fmt.Sprintf("environment registry request failed: error sending request for url (%s)", e.URL)
}

// Unwrap returns the reason.
func (e *TransportError) Unwrap() error { return e.Err }

// Retryable reports that another attempt may succeed.
func (e *TransportError) Retryable() bool { return true }

// DecodeError means that a registry's answer could not be decoded. Err is the
// reason.
type DecodeError struct {
	Err error

	cut bool // the answer ended before it was complete
}

func (e *DecodeError) Error() string {
	return "environment registry request failed: error decoding response body"
}

// Unwrap returns the reason.
func (e *DecodeError) Unwrap() error { return e.Err }

// Retryable reports whether another attempt may succeed. It returns true if the connection was lost
// in the middle of the answer.
func (e *DecodeError) Retryable() bool { return e.cut }

// AuthorizationError means that a request was not sent because there are no
// credentials for it.
type AuthorizationError struct{ Err error }

func (e *AuthorizationError) Error() string {
	return fmt.Sprintf("environment registry authentication error: %v", e.Err)
}

// Unwrap returns the reason.
func (e *AuthorizationError) Unwrap() error { return e.Err }

// StatusError is an answer that is not a success.
type StatusError struct {
	Status  int    // of HTTP
	Code    string // the registry's error code; empty: none
	Message string // for people
}

func (e *StatusError) Error() string {
	switch {
	case e.refused():
		return fmt.Sprintf("environment registry authentication error: environment registry authentication failed (%s): %s",
			httpclient.StatusText(e.Status), e.Message)
	case e.Code != "":
		return fmt.Sprintf("environment registry request failed (%s, %s): %s", httpclient.StatusText(e.Status), e.Code, e.Message)
	default:
		return fmt.Sprintf("environment registry request failed (%s): %s", httpclient.StatusText(e.Status), e.Message)
	}
}

// Retryable reports whether another attempt may succeed. It returns true if the registry is
// overloaded or has failed.
func (e *StatusError) Retryable() bool {
	return e.Status == http.StatusRequestTimeout || e.Status == http.StatusTooManyRequests || e.Status >= 500
}

// Unauthorized reports whether the registry rejected the credentials.
func (e *StatusError) Unauthorized() bool { return e.Status == http.StatusUnauthorized }

// refused reports whether the registry refused the request because of the credentials.
func (e *StatusError) refused() bool { return isAuth(e.Status) }

func isAuth(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusForbidden
}

// ValidationStatusError means that the credentials do not permit asking whether a harness may
// connect.
type ValidationStatusError struct{ Status int }

func (e *ValidationStatusError) Error() string {
	return fmt.Sprintf("environment registry harness key validation authentication failed (%s)", httpclient.StatusText(e.Status))
}

// Unauthorized reports whether the registry rejected the credentials.
func (e *ValidationStatusError) Unauthorized() bool { return e.Status == http.StatusUnauthorized }

// newStatusError returns the error for an answer. body is the part of the answer that was
// read.
func newStatusError(status int, body []byte) *StatusError {
	e := &StatusError{Status: status, Message: "empty or malformed error body"}
	if isAuth(status) {
		e.Message = "empty error body"
	}
	if preview := cut(strings.TrimSpace(httpclient.PlainText(string(body))), maxPreview); preview != "" {
		e.Message = preview
	}
	code, message, err := blame(body)
	if err != nil {
		return e
	}
	if code != nil {
		e.Code = httpclient.PlainText(*code)
	}
	if message != nil {
		e.Message = httpclient.PlainText(*message)
	}
	return e
}

// blame decodes {"error":{"code","message"}}. Each of the two is nil if it is missing or null.
func blame(body []byte) (code, message *string, err error) {
	inner := jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		jsonwire.Optional(c, "code", jsonwire.OrNull, &code, jsonwire.TextValue)
		jsonwire.Optional(c, "message", jsonwire.OrNull, &message, jsonwire.TextValue)
	})
	err = decode(body, jsonwire.FieldsFunc(func(c *jsonwire.Codec) { c.Struct("error", jsonwire.Need, inner) }))
	return code, message, err
}

// cut returns the first characters of a text, at most limit of them.
func cut(text string, limit int) string {
	count := 0
	for at := range text {
		if count == limit {
			return text[:at]
		}
		count++
	}
	return text
}
