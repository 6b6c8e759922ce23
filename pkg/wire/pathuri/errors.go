package pathuri

// SyntaxError says that a text is no path of the protocol at all: it is
// relative, has another scheme, or is not a well-formed URI. Servers answer it
// as invalid params (-32602).
type SyntaxError struct{ text string }

// Error returns the text for the client.
func (e *SyntaxError) Error() string { return e.text }

// HostError says that a path is well-formed but can name nothing on this
// host: it has another host's name, a drive letter, or (a native path) a NUL
// byte. Servers answer it as an invalid request (-32600), or as invalid params
// where it is a working directory.
type HostError struct{ text string }

// Error returns the text for the client.
func (e *HostError) Error() string { return e.text }

func syntaxError(text string) error { return &SyntaxError{text} }

func notAbsolute(s string) error { return syntaxError("path is not absolute: " + clip(s)) }

// notHere is the text for URIs that no path on Linux corresponds to.
func notHere(uri string) string { return "'" + clip(uri) + "' is invalid on 'linux'" }

// clip shortens what an error repeats of a path.
func clip(s string) string {
	if len(s) <= maxShown {
		return s
	}
	return s[:maxShown] + "…"
}
