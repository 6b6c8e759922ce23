package remote

import (
	"errors"
	"fmt"
	"syscall"
	"testing"

	"codex.internal/pkg/execclient"
)

// TestMoveNamesTheRemedy: if a rename cannot move a file, its error names a command that can.
func TestMoveNamesTheRemedy(t *testing.T) {
	m := &moving{at: places{cwd: "file:///srv", home: "file:///root"}}
	unsupported := fmt.Errorf("rename: %w", execclient.ErrUnsupported)
	for _, tt := range []struct {
		err               error
		source, to, after string
	}{
		{unsupported, "a", ":b c",
			"this server cannot rename files; a command of the server can move it: codex remote run -- mv -n /srv/a '/srv/b c'"},
		{syscall.EXDEV, "~/a", "/b", syscall.EXDEV.Error() + "; a command of the server can move it: codex remote run -- mv -n /root/a /b"},
		{syscall.EEXIST, "a", "b", syscall.EEXIST.Error()},
	} {
		if got := m.remedy(tt.err, tt.source, tt.to); got.Error() != tt.after {
			t.Errorf("%v, want %s", got, tt.after)
		}
	}
	m.options.Overwrite = true
	if got := m.remedy(unsupported, "a", "b"); got == nil || errors.Is(got, execclient.ErrUnsupported) ||
		got.Error() != "this server cannot rename files; a command of the server can move it: codex remote run -- mv /srv/a /srv/b" {
		t.Errorf("got %v; want not %v, %v", got, execclient.ErrUnsupported, "this server cannot rename files; a command of the server can move it: codex remote run -- mv /srv/a /srv/b")
	}
}
