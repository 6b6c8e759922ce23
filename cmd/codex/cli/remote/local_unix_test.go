//go:build unix

package remote

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/execproto"
	"golang.org/x/sys/unix"
)

// TestReadsListedFiles reads files of a tree, and files that another process could have put in
// their place after they were listed. Opening a FIFO for reading does not wait for a writer.
func TestReadsListedFiles(t *testing.T) {
	top := t.TempDir()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, size int) {
		must(os.WriteFile(filepath.Join(top, name), []byte("text")[:size], 0o600))
	}
	must(os.MkdirAll(filepath.Join(top, "d/e"), 0o700))
	write("f", 4)
	write("d/e/f", 3)
	write("grown", 0)
	must(os.Truncate(filepath.Join(top, "grown"), maxIgnoreFile+1))
	must(unix.Mkfifo(filepath.Join(top, "fifo"), 0o600))
	must(os.Symlink("f", filepath.Join(top, "link")))
	must(os.Symlink("d", filepath.Join(top, "links")))
	tree := &localTree{path: top}
	for name, want := range map[string]string{"f": "text", "d/e/f": "tex", "grown": "", "fifo": "", "link": "", "links/e/f": "", "d": "", "none": ""} {
		text, err := tree.read(name)
		if err == nil && text != want || (err == nil) != (want != "") {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
	}
}

// TestSizeChangesBeforeTheFirstSignal: a change of the terminal's size between the start of
// the process and the first signal handler is not lost.
func TestSizeChangesBeforeTheFirstSignal(t *testing.T) {
	small, large := &execproto.TerminalSize{Rows: 24, Cols: 80}, &execproto.TerminalSize{Rows: 40, Cols: 120}
	for _, tt := range []struct {
		name      string
		sent, now *execproto.TerminalSize
		changes   int
	}{
		{"the same size", small, small, 0},
		{"another size", small, large, 1},
		{"the process was told none", nil, small, 1},
		{"a terminal without a size", small, nil, 0},
	} {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		changes := 0
		routineResize(ctx, tt.sent, func() *execproto.TerminalSize { return tt.now }, func() { changes++ })
		if changes != tt.changes {
			t.Errorf("%s: %d changes, want %d", tt.name, changes, tt.changes)
		}
	}
}
