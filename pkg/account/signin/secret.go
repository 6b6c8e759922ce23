package signin

import (
	"fmt"
	"io"
	"log/slog"
)

// redacted is what a secret prints as.
const redacted = "[redacted]"

// Secret is a text that nobody may see: a key or a token. It prints as
// [redacted], whatever the verb, and is encoded so as JSON.
type Secret string

// Reveal returns the text itself, for who it is meant for.
func (s Secret) Reveal() string { return string(s) }

// String returns [redacted].
func (Secret) String() string { return redacted }

// GoString returns [redacted].
func (Secret) GoString() string { return redacted }

// Format writes [redacted].
func (Secret) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, redacted) }

// LogValue returns [redacted].
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalText returns [redacted].
func (Secret) MarshalText() ([]byte, error) { return []byte(redacted), nil }
