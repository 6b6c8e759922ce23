package cmdutil

import (
	"encoding/json"
	"io"
)

// PrintJSON prints a value as JSON, with a newline.
func PrintJSON(to io.Writer, v any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
