package relay

import (
	"fmt"
	"io"
	"log/slog"

	"codex.internal/pkg/wire/digest"
	"codex.internal/pkg/wire/websocket"
)

// The query of a registration's URL is a credential, and a bundle also contains an authorization.
// Both types print only their public parts. A type with an unexported field of one of these types
// needs its own method, because package fmt does not call the methods of unexported fields.

// String returns the names of the registration and its URL without the query.
func (r Registration) String() string {
	return fmt.Sprintf("environment %s, registration %s at %s", r.EnvironmentID, r.RegistrationID, websocket.PublicURL(r.URL))
}

// Format writes String, whatever the verb.
func (r Registration) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, r.String()) }

// LogValue returns String.
func (r Registration) LogValue() slog.Value { return slog.StringValue(r.String()) }

// MarshalText returns String.
func (r Registration) MarshalText() ([]byte, error) { return []byte(r.String()), nil }

// Format writes the names of the registration with which the stream was made.
func (c *Conn) Format(w fmt.State, verb rune) { c.bundle.Format(w, verb) }

// Format writes only the word executor, because the registration may be changing.
func (e *Executor) Format(w fmt.State, _ rune) { _, _ = io.WriteString(w, "executor") }

// Format writes the names of the registration.
func (v *executorConn) Format(w fmt.State, verb rune) { v.registration.Format(w, verb) }

// streamID is the id of a stream. Logs show only a digest of it: a harness that knows another
// harness's stream id could claim the stream at the relay after the other's connection was lost.
type streamID string

// LogValue returns the digest.
func (id streamID) LogValue() slog.Value {
	return slog.StringValue(digest.Of(string(id)))
}
