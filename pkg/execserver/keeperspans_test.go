package execserver

import (
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execserver/tracing"
)

// tracer returns one whose collector does not answer.
func tracer(t *testing.T) *tracing.Tracer {
	t.Helper()
	tr, err := tracing.New(tracing.Options{
		Getenv: func(name string) string {
			return map[string]string{"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}[name]
		},
		Transport: func() (*http.Transport, error) { return &http.Transport{}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { tr.Shutdown(t.Context()) })
	return tr
}

// TestSpansOfKeepersAreCounted: what a keeper has dropped is in the metrics of one server, once,
// and a file that is none, or not written yet, counts nothing.
func TestSpansOfKeepersAreCounted(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		make       func(path string) error // in place of a file with the text
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
			d.srv.opts.Tracer = tracer(t)
			d.srv.metrics = newInstruments(d.srv)
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
				for _, k := range d.all("") {
					d.countSpans(k)
				}
			}
			if full, failed := d.srv.keptSpans.full.Load(), d.srv.keptSpans.failed.Load(); full != tt.full || failed != tt.failed {
				t.Errorf("%d and %d are counted, want %d and %d", full, failed, tt.full, tt.failed)
			}
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == tt.stays {
				t.Errorf("the file: %v", err)
			}
			var text strings.Builder
			if err := d.srv.metrics.set.Write(&text); err != nil || tt.failed == 3 &&
				(!strings.Contains(text.String(), `spans_dropped_total{reason="queue_full"} 2`) || !strings.Contains(text.String(), `spans_dropped_total{reason="export_failed"} 3`)) {
				t.Errorf("%v\n%s", err, text.String())
			}
		})
	}
}

// TestSpansOfKeepersStay: a server without a collector has no such metrics, and leaves the
// numbers to one that has.
func TestSpansOfKeepersStay(t *testing.T) {
	d := newStore(t)
	path := filepath.Join(reserve(t, d, testRecord("one", "a")), spansName)
	if err := os.WriteFile(path, []byte(`{"queueFull":2,"exportFailed":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	d.countSpans(d.all("")[0])
	if _, err := os.Lstat(path); err != nil || d.srv.keptSpans.full.Load() != 0 {
		t.Errorf("%v, %d spans are counted", err, d.srv.keptSpans.full.Load())
	}
	d.srv.opts.Tracer = tracer(t)
	k := d.all("")[0]
	if err := d.remove(k); err != nil || d.srv.keptSpans.full.Load() != 2 {
		t.Errorf("with the process removed: %v, %d spans are counted", err, d.srv.keptSpans.full.Load())
	}
}
