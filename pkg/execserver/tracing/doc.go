// Package tracing continues the traces of clients, and exports spans to a collector of
// OpenTelemetry (docs/spec/wire.md §2.5).
//
// A Tracer starts spans. A span that has ended waits in a bounded queue, from which one goroutine exports batches by
// OTLP over HTTP, as protobuf. No code waits for the export: spans that do not fit into the queue, or that the
// collector does not accept, are dropped, counted, and logged once a minute. The methods of a nil Tracer and of a nil
// Span do nothing, so that code that makes spans need not check whether there is a collector.
//
// The messages are encoded by hand with protowire, which the relay links already. Measured with
// Go 1.26 on amd64, stripped, in a program with net/http: OpenTelemetry's SDK with
// otlptracehttp 1.47.0 takes 7.8 MB (it links gRPC), its generated types alone (proto/slim/otlp
// 1.11.1) 1.7 MB, and protowire 0.01 MB. With the latter, this package adds 0.07 MB to the
// program, which has 1 MB left. Tests decode what is sent with the generated types, and
// scripts/collector sends it to the receiver of OpenTelemetry's collector.
//
// Attributes never contain commands, paths, environments or contents.
package tracing
