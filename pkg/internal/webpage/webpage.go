// Package webpage contains the common parts of the services' status pages: style, protection,
// and formatting of numbers. (Package html/template would add 0.2 MB to codex.)
package webpage

import (
	"crypto/sha256"
	_ "embed" // the style
	"encoding/base64"
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// Style is the style of the pages. It has a light and a dark mode, and shows tables as lists on a
// phone.
//
//go:embed style.css
var Style string

// Policy returns the Content-Security-Policy of a page. It permits the page's own style, the script
// (which may be empty) and fetching the page itself. A name that was inserted into the markup
// without escaping could not run code.
func Policy(script string) string {
	policy := "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; img-src data:; style-src " + sourceHash(Style)
	if script != "" {
		policy += "; connect-src 'self'; script-src " + sourceHash(script)
	}
	return policy
}

// FormPolicy is Policy for a page without a script whose forms may be sent to its own server.
func FormPolicy() string {
	return strings.Replace(Policy(""), "form-action 'none'", "form-action 'self'", 1)
}

// sourceHash returns the source expression of a policy for an inline style or script.
func sourceHash(text string) string {
	sum := sha256.Sum256([]byte(text))
	return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// SetHeaders sets the headers of a page with a policy. They forbid caching.
func SetHeaders(h http.Header, policy string) {
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
}

// Counted returns a number with the name of a thing, in the singular or plural.
func Counted[N int | uint64](n N, thing string) string {
	if n != 1 {
		thing += "s"
	}
	return fmt.Sprint(n, " ", thing)
}

// ByteSize returns a size in a readable form.
func ByteSize(n uint64) string {
	if n < 1<<10 {
		return strconv.FormatUint(n, 10) + " B"
	}
	size, units := float64(n)/(1<<10), []string{"KiB", "MiB", "GiB", "TiB"}
	// A number that rounds up to 1024.0 of a unit is shown as 1.0 of the next.
	for ; size >= 1023.95 && len(units) > 1; units = units[1:] {
		size /= 1 << 10
	}
	return strconv.FormatFloat(size, 'f', 1, 64) + " " + units[0]
}
