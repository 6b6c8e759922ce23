package collector

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"syscall"
	"testing"

	"go.opentelemetry.io/collector/component/componenttest"
	"go.opentelemetry.io/collector/config/configgrpc"
	"go.opentelemetry.io/collector/config/configoptional"
	"go.opentelemetry.io/collector/consumer"
	"go.opentelemetry.io/collector/pdata/pcommon"
	"go.opentelemetry.io/collector/pdata/ptrace"
	"go.opentelemetry.io/collector/receiver/otlpreceiver"
	"go.opentelemetry.io/collector/receiver/receivertest"
)

// receive starts a collector's receiver, which runs until the test ends, and returns its endpoint.
// next gets the data that the receiver has accepted.
func receive(t *testing.T, next consumer.ConsumeTracesFunc) string {
	t.Helper()
	traces, err := consumer.NewTraces(next)
	must(t, err)
	factory := otlpreceiver.NewFactory()
	// The receiver does not report its port. So the test chooses a port that was
	// free a moment ago, and another one if that has been taken meanwhile.
	for tries := 1; ; tries++ {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		must(t, err)
		address := l.Addr().String()
		must(t, l.Close())
		config := factory.CreateDefaultConfig().(*otlpreceiver.Config)
		config.Protocols.GRPC = configoptional.None[configgrpc.ServerConfig]()
		config.Protocols.HTTP.GetOrInsertDefault().ServerConfig.NetAddr.Endpoint = address
		must(t, config.Protocols.Validate())
		receiver, err := factory.CreateTraces(context.Background(), receivertest.NewNopSettings(factory.Type()), config, traces)
		must(t, err)
		if err = receiver.Start(context.Background(), componenttest.NewNopHost()); errors.Is(err, syscall.EADDRINUSE) && tries < 10 {
			continue
		}
		must(t, err)
		t.Cleanup(func() { must(t, receiver.Shutdown(context.Background())) })
		return "http://" + address
	}
}

// received is a span with a description of its origin.
type received struct {
	ptrace.Span
	resource, scope string
}

// spansOf returns the spans of a delivery.
func spansOf(data ptrace.Traces) (list []received) {
	for _, r := range data.ResourceSpans().All() {
		for _, s := range r.ScopeSpans().All() {
			scope := s.Scope().Name() + " " + s.Scope().Version()
			for _, span := range s.Spans().All() {
				list = append(list, received{span, textOf(r.Resource().Attributes()), scope})
			}
		}
	}
	return list
}

// textOf returns attributes as JSON.
func textOf(attributes pcommon.Map) string {
	text, err := json.Marshal(attributes.AsRaw())
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
