//go:build linux || darwin

package server

import (
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/execserver/tracing"
)

// traceFlushTime bounds how long the end of the server waits for the collector of traces.
const traceFlushTime = 3 * time.Second

// startTracer returns what exports traces to the collector that OpenTelemetry's variables name;
// nil if they name none, or cannot be used: other programs of the machine may use them
// otherwise, and a server must not fail for its traces. The caller must call the function
// that it returns after the end of the server. Headers for the collector are taken out of the environment, because commands must not
// get its secret.
func startTracer(log *slog.Logger) (*tracing.Tracer, func()) {
	none := func() {}
	t, err := tracing.New(tracing.Options{
		Getenv: os.Getenv, Version: cmdutil.Version(), Logger: log,
		Transport: func() (*http.Transport, error) { return httpclient.New(os.Getenv) },
	})
	switch {
	case err != nil:
		log.Warn("traces are not exported", "reason", err)
		return nil, none
	case t == nil:
		return nil, none
	}
	for _, name := range tracing.HeaderVariables {
		_ = os.Unsetenv(name) // the name is a good one
	}
	log.Info("exporting traces", "endpoint", t.Endpoint())
	return t, func() {
		ctx, cancel := context.WithTimeout(context.Background(), traceFlushTime)
		defer cancel()
		t.Shutdown(ctx)
	}
}
