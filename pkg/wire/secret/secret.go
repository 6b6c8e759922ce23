// Package secret keeps credentials out of logs and messages. Text is a credential. Hidden and
// Unprinted are for types that have a credential in a field.
package secret

import (
	"fmt"
	"io"
	"log/slog"
)

// Redacted is the text that is printed in place of a credential.
const Redacted = "[redacted]"

// Text is a credential: a key, a token or a password. It prints as Redacted with
// every verb, and encoders and loggers write Redacted. Reveal and a conversion to
// string return the text.
type Text string

// Reveal returns the text, for the request or the file that it is meant for.
func (t Text) Reveal() string { return string(t) }

// String returns Redacted.
func (Text) String() string { return Redacted }

// GoString returns Redacted.
func (Text) GoString() string { return Redacted }

// Format writes Redacted.
func (Text) Format(w fmt.State, _ rune) { write(w) }

// LogValue returns Redacted.
func (Text) LogValue() slog.Value { return slog.StringValue(Redacted) }

// MarshalText returns Redacted.
func (Text) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

// Unprinted makes the struct that embeds it print as Redacted with every verb, also in logs.
// Encoders ignore Unprinted: it is for requests and answers with a credential in a field.
//
// A struct with a field of type Text needs it, too: package fmt does not call the methods of
// unexported fields, and would print the text. For the same reason, a type with such a struct
// in an unexported field must embed Unprinted.
type Unprinted struct{}

// Format writes Redacted.
func (Unprinted) Format(w fmt.State, _ rune) { write(w) }

// LogValue returns Redacted.
func (Unprinted) LogValue() slog.Value { return slog.StringValue(Redacted) }

// Hidden is Unprinted for a struct that must not be encoded either: encoders write Redacted in
// its place.
type Hidden struct{ Unprinted }

// String returns Redacted.
func (Hidden) String() string { return Redacted }

// GoString returns Redacted.
func (Hidden) GoString() string { return Redacted }

// MarshalText returns Redacted.
func (Hidden) MarshalText() ([]byte, error) { return []byte(Redacted), nil }

func write(w fmt.State) { _, _ = io.WriteString(w, Redacted) } // fmt's buffer: never fails
