package remote

import (
	"errors"
	"strings"
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

// TestHintsForHosts: a command line of scp or rsync leads to the one that means the same.
func TestHintsForHosts(t *testing.T) {
	for _, tt := range []struct{ args, want string }{
		{"devbox:/f .", "codex remote cp --env devbox :/f ."}, {"a user@box:d", "codex remote cp --env user@box a :d"}, {"a b", ""}, {"./a:b c", ""}, {":a :b", ""},
	} {
		got := environmentHint("cp", strings.Fields(tt.args))
		if tt.want == "" && got != "" || !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: got the hint %q, want %q", tt.args, got, tt.want)
		}
	}
}
