// Package observe reports the events of a server to metrics, the audit trail, traces and the
// log.
//
// Events (events.go) is the interface between the two sides: one member for each event. The
// server and the packages below it report an event in one call after the work is done, or ask
// for permission before. An observer adds functions for the events that it records: newMetrics
// (metrics.go), Audit (audit.go), traces (traces.go) and addLog (log.go). New combines them.
//
// To add an event, add a member to Events, call its Tell or Ask in the code that does the work,
// and add a function to each observer that records it. To find who records an event, search for
// its name in this package.
//
// Gate keeps the promise of the audit trail: the code asks the Gate before such an operation,
// and does not carry it out if the trail cannot be written (TestUnwritableTrailStopsWork).
//
// The package may import audit, tracing and internal/metrics, the protocol's types and wire. It
// must not import the server, whose objects it knows only as the values in events. The structs
// of events with a lifetime (Request, Process, File, HTTP, Step) have fields for the observers'
// own state, so that no observer needs a map from an object to its span.
package observe
