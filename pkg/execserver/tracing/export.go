package tracing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"
)

// routineExport exports spans in batches: when a batch is full, or when its first span has
// waited for exportDelay.
func (t *Tracer) routineExport() {
	defer close(t.done)
	batch := make([]*Span, 0, maxBatch)
	flush := func() {
		if len(batch) > 0 {
			t.export(batch)
			clear(batch)
			batch = batch[:0]
		}
	}
	timer := time.NewTimer(exportDelay)
	defer timer.Stop()
	for {
		select {
		case s := <-t.queue:
			if len(batch) == 0 {
				timer.Reset(exportDelay)
			}
			if batch = append(batch, s); len(batch) == maxBatch {
				flush()
			}
		case <-timer.C:
			flush()
			if t.unreported() > 0 {
				timer.Reset(exportDelay) // to log dropped spans after logInterval
			}
		case <-t.stopped:
			t.drain(batch)
			return
		}
		t.report(false)
	}
}

// drain exports the pending spans when the tracer is shut down.
func (t *Tracer) drain(batch []*Span) {
	for len(t.queue) > 0 || len(batch) > 0 {
		for len(t.queue) > 0 && len(batch) < maxBatch {
			batch = append(batch, <-t.queue) // there is no other receiver
		}
		t.export(batch)
		batch = batch[:0]
	}
	t.report(true)
}

// export sends a batch, and retries if the collector is temporarily busy.
func (t *Tracer) export(batch []*Span) {
	body := encodeRequest(t.resource, t.opts.Version, batch)
	wait := firstWait
	for attempt := 1; ; attempt++ {
		refused, err := t.send(body)
		if err == nil {
			refused = min(max(refused, 0), int64(len(batch)))
			t.exported.Add(int64(len(batch)) - refused)
			t.failed.Add(refused)
			if refused > 0 {
				t.lastError = fmt.Errorf("the collector has taken all but %d of %d spans", refused, len(batch))
			}
			return
		}
		t.lastError = err
		var later *retryError
		if !errors.As(err, &later) || attempt == maxAttempts || !t.sleep(max(wait, later.after)) {
			t.failed.Add(int64(len(batch)))
			return
		}
		wait *= 2
	}
}

// sleep waits for d. It returns false if the tracer is shut down in the meantime: then there is
// no time for another attempt.
func (t *Tracer) sleep(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.stopped:
		return false
	}
}

// retryError means that the same request may succeed later.
type retryError struct {
	error
	after time.Duration // minimum time before the next attempt
}

func (e *retryError) Unwrap() error { return e.error }

// send sends one request, and returns how many spans were rejected. It does not follow
// redirects, because the headers may contain a secret.
func (t *Tracer) send(body []byte) (refused int64, err error) {
	ctx, cancel := context.WithTimeout(t.ctx, t.timeout)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, t.endpoint, bytes.NewReader(body))
	if err != nil {
		return 0, errors.New("the endpoint is not a URL")
	}
	r.Header = t.headers.Clone()
	r.Header.Set("Content-Type", "application/x-protobuf")
	r.Header.Set("User-Agent", "codex-exec-server/"+t.opts.Version)
	answer, err := t.transport.RoundTrip(r)
	if err != nil {
		return 0, &retryError{error: err}
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch answer.StatusCode {
	case http.StatusOK:
		if err != nil {
			return 0, nil // the status code says that the collector has accepted it
		}
		return rejected(text), nil
	case http.StatusTooManyRequests, http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		seconds, _ := strconv.ParseUint(answer.Header.Get("Retry-After"), 10, 16)
		after := min(time.Duration(seconds)*time.Second, maxRetryWait)
		return 0, &retryError{fmt.Errorf("the collector answers with status %d", answer.StatusCode), after}
	default:
		return 0, fmt.Errorf("the collector answers with status %d", answer.StatusCode)
	}
}

// report logs the number of spans that were dropped since the last report. It logs at most once
// per logInterval, except at the end.
func (t *Tracer) report(last bool) {
	lost := t.unreported()
	if lost == 0 || !last && !t.logged.IsZero() && time.Since(t.logged) < logInterval {
		return
	}
	reason := "more spans ended than the collector takes"
	if t.lastError != nil {
		reason = t.lastError.Error()
	}
	t.loggedLost += lost
	t.logged, t.lastError = time.Now(), nil
	t.opts.Logger.Warn("spans were not exported", "spans", lost, "all", t.loggedLost, "reason", reason)
}

// unreported returns how many spans were dropped since the last report.
func (t *Tracer) unreported() int64 {
	counts := t.Counts()
	return counts.Full + counts.Failed - t.loggedLost
}
