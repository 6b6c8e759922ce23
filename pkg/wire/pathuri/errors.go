package pathuri

import "codex.internal/pkg/wire/logtext"

// SyntaxError is the error for a text that is not a path of the protocol: a relative path, a
// URI with another scheme, or a malformed URI. Servers answer with invalid params (-32602).
type SyntaxError struct{ text string }

// Error returns the text for the client.
func (e *SyntaxError) Error() string { return e.text }

// HostError is the error for a well-formed path that cannot exist on this host: a URI with
// another host's name or a drive letter, or a native path with a NUL byte. Servers answer with
// an invalid request error (-32600), or with invalid params if the path is a working directory.
type HostError struct{ text string }

// Error returns the text for the client.
func (e *HostError) Error() string { return e.text }

func syntaxError(text string) error { return &SyntaxError{text} }

func notAbsolute(s string) error {
	return syntaxError("path is not absolute: " + logtext.Clip(s, maxShown))
}

// notHere returns the error text for a URI without a native path on Linux.
func notHere(uri string) string { return "'" + logtext.Clip(uri, maxShown) + "' is invalid on 'linux'" }
