package cmdutil

import (
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// PrintTokens prints a table of the tokens of a file for people. header and each row have
// a cell for each column.
func PrintTokens(to io.Writer, path string, header []string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintf(to, "No tokens in %s.\n", path)
		return err
	}
	w := tabwriter.NewWriter(to, 0, 0, 2, ' ', 0)
	for _, row := range append([][]string{header}, rows...) {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// ExpiryCell describes when a token expires; nil: never.
func ExpiryCell(expires *time.Time, now time.Time) string {
	switch {
	case expires == nil:
		return "never"
	case !now.Before(*expires):
		return expires.Format(time.RFC3339) + " (expired)"
	default:
		return expires.Format(time.RFC3339)
	}
}

// Expiry returns the time at which a token expires, for JSON. For the zero time it returns nil, which means never.
func Expiry(at time.Time) *time.Time {
	if at.IsZero() {
		return nil
	}
	return &at
}
