package cli

import (
	"encoding/json"
	"io"
)

// printJSON prints a value for programs.
func printJSON(to io.Writer, v any) error {
	e := json.NewEncoder(to)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
