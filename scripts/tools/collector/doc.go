// Package collector tests the spans of codex exec-server (docs/spec/wire.md §2.5) with the OTLP
// receiver of the OpenTelemetry Collector, and the server's behaviour when the collector is busy,
// refuses, is slow or is missing.
//
// It is a separate module, so that building or testing the program does not download the
// collector. scripts/collector runs it: it sets CODEX_TEST_PROGRAMS to a directory with codex.
package collector
