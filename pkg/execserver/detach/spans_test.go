package detach

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execserver/tracing"
)

// countDropped makes the store count dropped spans, and returns the sums.
func countDropped(d *Store) *tracing.Counts {
	var counts tracing.Counts
	d.Traced = true
	d.Events.KeeperSpansDropped.Add(func(c tracing.Counts) { counts.Full += c.Full; counts.Failed += c.Failed })
	return &counts
}

// TestSpansOfKeepersAreCounted: a keeper's number of dropped spans is added to the metrics of
// one server, once. A malformed or incomplete file counts nothing.
func TestSpansOfKeepersAreCounted(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		make       func(path string) error // makes something other than a file with the text
		full       int64
		failed     int64
		stays      bool
	}{
		{name: "none"},
		{name: "not written yet", make: func(path string) error { return os.WriteFile(path, nil, 0o600) }, stays: true},
		{name: "nothing was dropped", text: `{"queueFull":0,"exportFailed":0}`},
		{name: "dropped", text: `{"queueFull":2,"exportFailed":3}`, full: 2, failed: 3},
		{name: "more than there is", text: `{"queueFull":0,"exportFailed":9223372036854775807}`, stays: true},
		{name: "less than nothing", text: `{"queueFull":-1,"exportFailed":1}`, stays: true},
		{name: "no JSON", text: "5 spans", stays: true},
		{name: "a long file", text: strings.Repeat(" ", maxSpansFile) + `{"queueFull":2}`, stays: true},
		{name: "a link", make: func(path string) error { return os.Symlink(recordName, path) }, stays: true},
		{name: "a FIFO", make: func(path string) error { return syscall.Mkfifo(path, 0o600) }, stays: true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := newStore(t)
			counts := countDropped(d)
			path := filepath.Join(reserve(t, d, testRecord("one", "a")), spansName)
			if tt.text != "" {
				tt.make = func(path string) error { return os.WriteFile(path, []byte(tt.text), 0o600) }
			}
			if tt.make != nil {
				if err := tt.make(path); err != nil {
					t.Fatal(err)
				}
			}
			for range 2 {
				for _, k := range d.All("") {
					d.countSpans(k)
				}
			}
			if counts.Full != tt.full || counts.Failed != tt.failed {
				t.Errorf("got %d and %d spans, want %d and %d", counts.Full, counts.Failed, tt.full, tt.failed)
			}
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == tt.stays {
				t.Errorf("the file: %v", err)
			}
		})
	}
}

// TestSpansOfKeepersStay: a server without a collector does not read the keepers'
// counters, so that a server with one can.
func TestSpansOfKeepersStay(t *testing.T) {
	d := newStore(t)
	path := filepath.Join(reserve(t, d, testRecord("one", "a")), spansName)
	if err := os.WriteFile(path, []byte(`{"queueFull":2,"exportFailed":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.countSpans(d.All("")[0])
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the file without a collector: %v", err)
	}
	counts := countDropped(d)
	if err := d.remove(d.All("")[0]); err != nil || counts.Full != 2 {
		t.Errorf("with the process removed: got %d spans and %v, want 2", counts.Full, err)
	}
}
