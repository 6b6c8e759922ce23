package cli

import (
	"bytes"
	"io"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// TestFamilies runs command lines with the one command that they name, and with all.
func TestFamilies(t *testing.T) {
	for _, f := range families() {
		var one, all bytes.Buffer
		s := cmdutil.Streams{Out: io.Discard, Err: io.Discard}
		if name := f.make(s).Name; name != f.name {
			t.Errorf("the command %q is named %q in the list", name, f.name)
		}
		for _, args := range [][]string{{f.name, "--help"}, {f.name, "--nothing"}} {
			s.Out = &one
			app := newAppFor(s, args)
			if got := len(app.Commands); f.others != (got > 2) {
				t.Errorf("%q: %d commands were made", args, got)
			}
			oneErr := run(t.Context(), app, append([]string{"codex"}, args...))
			s.Out = &all
			allErr := run(t.Context(), newApp(s), append([]string{"codex"}, args...))
			if one.String() != all.String() {
				t.Errorf("%q: with one command:\n%s\nwith all:\n%s", args, one.String(), all.String())
			}
			if (oneErr == nil) != (allErr == nil) || oneErr != nil && oneErr.Error() != allErr.Error() {
				t.Errorf("%q: with one command %v, with all %v", args, oneErr, allErr)
			}
		}
	}
}
