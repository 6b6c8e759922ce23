package execserver

import (
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execserver/observe"
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

// dropped returns how many spans a server says were dropped for a reason; "": it says nothing.
func dropped(t *testing.T, srv *Server, reason string) string {
	t.Helper()
	w := httptest.NewRecorder()
	srv.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, observe.MetricsPath, nil))
	for line := range strings.Lines(w.Body.String()) {
		if n, ok := strings.CutPrefix(line, `exec_server_spans_dropped_total{reason="`+reason+`"} `); ok {
			return strings.TrimSpace(n)
		}
	}
	return ""
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
			d.srv.addObservers(nil)
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
			for reason, want := range map[string]int64{"queue_full": tt.full, "export_failed": tt.failed} {
				if got := dropped(t, d.srv, reason); got != strconv.FormatInt(want, 10) {
					t.Errorf("%s: got %s spans, want %d", reason, got, want)
				}
			}
			if _, err := os.Lstat(path); errors.Is(err, fs.ErrNotExist) == tt.stays {
				t.Errorf("the file: %v", err)
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
	d.srv.addObservers(nil)
	d.countSpans(d.all("")[0])
	if got := dropped(t, d.srv, "queue_full"); got != "" {
		t.Errorf("without a collector: got %s spans, want no such metric", got)
	}
	if _, err := os.Lstat(path); err != nil {
		t.Errorf("the file without a collector: %v", err)
	}
	d.srv.opts.Tracer = tracer(t)
	d.srv.addObservers(nil)
	err := d.remove(d.all("")[0])
	if got := dropped(t, d.srv, "queue_full"); err != nil || got != "2" {
		t.Errorf("with the process removed: got %q spans and %v, want 2", got, err)
	}
}
