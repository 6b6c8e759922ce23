package server

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"os"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/account/httpclient"
	"codex.internal/pkg/execserver/tracing"
)

// traceFlushTime bounds the time that an ending server waits for the collector of traces.
const traceFlushTime = 3 * time.Second

// startTracer returns the tracer that exports to the collector in OpenTelemetry's variables. It returns nil if
// there is no collector or if the variables are invalid: they may be meant for other programs, and a server must
// not fail because of traces. The caller must call the returned function after the end of the server. Variables
// with headers for the collector are always removed from the environment, because commands must not get the
// secrets in them.
func startTracer(log *slog.Logger) (*tracing.Tracer, func()) {
	t, err := newTracer(os.Getenv, cmdutil.Version(), log)
	for _, name := range tracing.HeaderVariables {
		_ = os.Unsetenv(name) // the name is valid
	}
	switch {
	case err != nil:
		log.Warn("traces are not exported", "reason", err)
		return nil, func() {}
	case t == nil:
		return nil, func() {}
	}
	log.Info("exporting traces", "endpoint", t.Endpoint())
	return t, func() { flushTraces(t) }
}

// newTracer returns the exporter of traces to the collector in OpenTelemetry's variables. It
// returns nil if they name no collector.
func newTracer(getenv func(string) string, version string, log *slog.Logger) (*tracing.Tracer, error) {
	return tracing.New(tracing.Options{
		Getenv: getenv, Version: version, Logger: log,
		Transport: func() (*http.Transport, error) { return httpclient.New(os.Getenv) },
	})
}

func flushTraces(t *tracing.Tracer) {
	ctx, cancel := context.WithTimeout(context.Background(), traceFlushTime)
	defer cancel()
	t.Shutdown(ctx)
}

// keeperTracer is startTracer for a keeper. A keeper inherits the variables of its server except those with the secret,
// which its settings contain. The server has already warned of invalid variables. RunKeeper shuts the tracer down.
func keeperTracer(secrets map[string]string, version string, log *slog.Logger) *tracing.Tracer {
	t, err := newTracer(func(name string) string { return cmp.Or(secrets[name], os.Getenv(name)) }, version, log)
	if err != nil {
		return nil
	}
	return t
}

// collectorSecrets returns the headers for the collector. It must be called before startTracer
// removes them from the environment.
func collectorSecrets() map[string]string {
	secrets := make(map[string]string)
	for _, name := range tracing.HeaderVariables {
		if value := os.Getenv(name); value != "" {
			secrets[name] = value
		}
	}
	return secrets
}
