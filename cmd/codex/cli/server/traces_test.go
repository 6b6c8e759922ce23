package server

import (
	"log/slog"
	"os"
	"testing"

	"codex.internal/pkg/execserver/tracing"
)

// TestHeadersOfCollectorsAreKeptFromCommands: commands do not get the headers, even if the
// server exports no traces because of the variables.
func TestHeadersOfCollectorsAreKeptFromCommands(t *testing.T) {
	for name, variables := range map[string]map[string]string{
		"no collector":      {},
		"switched off":      {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_TRACES_EXPORTER": "none"},
		"another protocol":  {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1", "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
		"traces are wanted": {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, name := range []string{"OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_TRACES_EXPORTER", "OTEL_EXPORTER_OTLP_PROTOCOL"} {
				t.Setenv(name, variables[name])
			}
			for _, name := range tracing.HeaderVariables {
				t.Setenv(name, "authorization=secret")
			}
			_, end := startTracer(slog.New(slog.DiscardHandler))
			defer end()
			for _, name := range tracing.HeaderVariables {
				if value, ok := os.LookupEnv(name); ok {
					t.Errorf("%s is still %q", name, value)
				}
			}
		})
	}
}
