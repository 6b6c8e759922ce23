package cli

import (
	"io"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

func TestOptionsBehindOperands(t *testing.T) {
	for typed, want := range map[string]string{
		"remote ls /tmp -l":                "remote ls -l /tmp",
		"remote ls -l /tmp":                "remote ls -l /tmp",
		"remote ls /tmp":                   "remote ls /tmp",
		"remote --env x ls /tmp -la":       "remote --env x ls -la /tmp",
		"remote --env=x ls /tmp --env y":   "remote --env=x ls --env y /tmp",
		"remote cp a :b -r --exclude x -p": "remote cp -r --exclude x -p a :b",
		"remote cp a - --exclude=x":        "remote cp --exclude=x a -",
		"remote cp a -r -- -b :c":          "remote cp -r -- a -b :c",
		"remote cp -- a -r":                "remote cp -- a -r",
		"remote cp a :b --exclude":         "remote cp --exclude a :b",
		"remote mv a b -n":                 "remote mv -n a b",
		"remote cat a --url u b":           "remote cat --url u a b",
		"remote run ls -l":                 "remote run ls -l",
		"remote run -- ls -l":              "remote run -- ls -l",
		"remote exec make -n":              "remote exec make -n",
		"sandbox ls -l":                    "sandbox ls -l",
		"remote nosuch a -l":               "remote nosuch a -l",
		"":                                 "",
	} {
		app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
		got := strings.Join(cmdutil.Permute(app, append([]string{"codex"}, strings.Fields(typed)...), takesFiles), " ")
		if got = strings.TrimSpace(strings.TrimPrefix(got, "codex")); got != want {
			t.Errorf("%q: %q, want %q", typed, got, want)
		}
	}
}
