// Package collector has the OTLP receiver of the OpenTelemetry Collector judge the spans of
// codex exec-server (docs/spec/wire.md §2.5), and what the server does when the collector is
// busy, refuses, is slow, or is not there.
//
// It is a module of its own, so that nobody who builds the program or runs its tests downloads
// the collector. scripts/collector runs it: it sets CODEX_TEST_PROGRAMS to a directory with codex.
package collector
