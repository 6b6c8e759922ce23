package home

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"github.com/pelletier/go-toml/v2"
)

// ConfigError reports an error and its position in a file. Line and Column count from 1.
type ConfigError struct {
	Path         string // empty: reported elsewhere
	Line, Column int
	Message      string
}

func (e *ConfigError) Error() string {
	at := fmt.Sprintf("%d:%d: %s", e.Line, e.Column, e.Message)
	if e.Path != "" {
		at = e.Path + ":" + at
	}
	return at
}

// DecodeTOML decodes a document into v. With closed, a name for which v has no field is an error.
func DecodeTOML(text []byte, v any, closed bool) *ConfigError {
	d := toml.NewDecoder(bytes.NewReader(text))
	if closed {
		d.DisallowUnknownFields()
	}
	err := d.Decode(v)
	var unknown *toml.StrictMissingError
	var at *toml.DecodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &unknown) && len(unknown.Errors) > 0:
		first := unknown.Errors[0]
		key := first.Key()
		e := &ConfigError{Message: fmt.Sprintf("unknown field `%s`", key[len(key)-1])}
		e.Line, e.Column = first.Position()
		return e
	}
	e := &ConfigError{Line: 1, Column: 1, Message: plain(err)}
	if errors.As(err, &at) {
		e.Line, e.Column = at.Position()
	}
	return e
}

// plain rewords an error of the TOML library for users who do not know Go, and omits the line,
// which may contain a secret.
func plain(err error) string {
	text := strings.TrimPrefix(err.Error(), "toml: ")
	rest, ok := strings.CutPrefix(text, "cannot decode TOML ")
	if !ok {
		return text
	}
	kind, rest, _ := strings.Cut(rest, " into ")
	want := "another type"
	switch rest[strings.LastIndex(rest, " ")+1:] {
	case "string":
		want = "a string"
	case "[]string":
		want = "an array of strings"
	case "bool":
		want = "true or false"
	case "float64":
		want = "a number"
	}
	return fmt.Sprintf("invalid type: %s, expected %s", kind, want)
}
