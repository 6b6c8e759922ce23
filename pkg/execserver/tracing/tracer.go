package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// Options configure a Tracer.
type Options struct {
	// Getenv reads OpenTelemetry's environment variables.
	Getenv func(name string) string
	// Version is the version of the program.
	Version string
	// Transport returns the transport for requests to the collector. It is called only if there
	// is a collector.
	Transport func() (*http.Transport, error)
	Logger    *slog.Logger
}

// Tracer starts spans and exports them. Its methods may be called from any goroutine.
type Tracer struct {
	config
	opts      Options
	transport *http.Transport
	queue     chan *Span

	exported, full, failed atomic.Int64

	// ctx is the context of the requests to the collector.
	ctx    context.Context
	cancel context.CancelFunc
	stop   func() // closes stopped, once
	// stopped is closed when Shutdown begins, and done when the exporter has returned.
	stopped, done chan struct{}

	logged     time.Time // used by the exporter only
	loggedLost int64
	lastError  error
}

// New returns a Tracer for the collector that the variables name; nil if they name none. The
// caller must call Shutdown. An error names the variable with the invalid value.
func New(opts Options) (*Tracer, error) {
	c, err := readConfig(opts.Getenv)
	if c == nil || err != nil {
		return nil, err
	}
	transport, err := opts.Transport()
	if err != nil {
		return nil, err
	}
	c.resource = append(c.resource, attribute{"service.version", opts.Version}, attribute{"process.pid", int64(os.Getpid())})
	if name, err := os.Hostname(); err == nil {
		c.resource = append(c.resource, attribute{"host.name", name})
	}
	t := &Tracer{
		config: *c, opts: opts, transport: transport, queue: make(chan *Span, maxQueue),
		stopped: make(chan struct{}), done: make(chan struct{}),
	}
	t.stop = sync.OnceFunc(func() { close(t.stopped) })
	t.ctx, t.cancel = context.WithCancel(context.Background())
	go t.routineExport()
	return t, nil
}

// Endpoint returns the URL to which spans are sent, without its query.
func (t *Tracer) Endpoint() string {
	r, err := http.NewRequest(http.MethodPost, t.endpoint, nil)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%s://%s%s", r.URL.Scheme, r.URL.Host, r.URL.Path)
}

// Counts are numbers of spans.
type Counts struct {
	Exported int64 // accepted by the collector
	Full     int64 // dropped because the queue was full
	Failed   int64 // dropped because the collector did not accept them
}

// Counts returns the numbers of exported and dropped spans.
func (t *Tracer) Counts() Counts {
	return Counts{t.exported.Load(), t.full.Load(), t.failed.Load()}
}

// enqueue passes a span that has ended to the exporter. It never blocks.
func (t *Tracer) enqueue(s *Span) {
	select {
	case t.queue <- s:
	default:
		t.full.Add(1)
	}
}

// Shutdown exports the pending spans until ctx ends, and ends the exporter. Spans that end
// later are not exported.
func (t *Tracer) Shutdown(ctx context.Context) {
	if t == nil {
		return
	}
	t.stop()
	defer context.AfterFunc(ctx, t.cancel)()
	<-t.done
	t.cancel()
	t.transport.CloseIdleConnections()
}
