package signin

import "log/slog"

// causedError is an error whose text does not contain its cause. Codex CLI prints the cause below
// the text, or not at all. A log contains both.
type causedError struct {
	text  string
	cause error // may be nil
}

func (e *causedError) Error() string { return e.text }

// Unwrap returns the cause.
func (e *causedError) Unwrap() error { return e.cause }

// LogValue returns the text and the cause.
func (e *causedError) LogValue() slog.Value {
	if e.cause == nil {
		return slog.StringValue(e.text)
	}
	return slog.StringValue(e.text + ": " + e.cause.Error())
}
