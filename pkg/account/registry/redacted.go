package registry

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what prints where a credential is part of a value.
const redacted = "[redacted]"

// credential makes what embeds it print as [redacted], whatever the verb or the
// encoder.
type credential struct{}

// String returns [redacted].
func (credential) String() string { return redacted }

// GoString returns [redacted].
func (credential) GoString() string { return redacted }

// Format writes [redacted].
func (credential) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// LogValue returns [redacted].
func (credential) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (credential) MarshalText() ([]byte, error) { return []byte(redacted), nil }

// Format writes [redacted]: the request is what is sent, and not for logs.
func (validateRequest) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// Format writes [redacted]: a password may be in the URL.
func (*Client) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }
