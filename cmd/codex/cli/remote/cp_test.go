package remote

import (
	"errors"
	"testing"
)

// A server must not choose a local name: it could report .ssh as the name of its home directory.
func TestCopiesAreNamedByTheUser(t *testing.T) {
	for typed, want := range map[string]string{
		"/srv/x": "x", "/srv/x/": "x", "x": "x", "~/x": "x", "a/../x": "x", "~user": "~user", "./~": "~",
		"file:///srv/x": "x", "file:///srv/a%20b": "a b", "/srv/.ssh": ".ssh",
		"": "", ".": "", "./": "", "..": "", "~": "", "~/": "", "/": "", "//": "", "x/..": "", "x/.": "", "~/.": "", "~/..": "", "file:///": "", "file:///x/%2e%2e": "",
	} {
		got, err := nameOf(typed)
		if got != want || (err != nil) != (want == "") || err != nil && !errors.Is(err, errNoName) {
			t.Errorf("%q: %q, %v; want %q", typed, got, err, want)
		}
	}
}
