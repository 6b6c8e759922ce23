// Package observe tells metrics, the audit trail, traces and the log what happens in a server.
//
// Events (events.go) is the interface between the two sides: one member for each event. The server
// and the packages below it tell an event in one call, when they have done their work, or ask before they do it.
// An observer adds functions for the events that it is about: newMetrics (metrics.go), Audit
// (audit.go), traces (traces.go) and addLog (log.go). New joins them.
//
// To observe something new, add a member to Events, tell it at its site, and add a function where
// it is to be recorded. To find who records an event, search for its name in this package.
//
// The promise of the audit trail is kept by Gate: what the trail must have before it happens is
// asked for, and does not happen if the trail cannot be written (TestUnwritableTrailStopsWork).
//
// The package may import what it records into (audit, tracing, internal/metrics), the protocol's
// types and wire. It must not import the server, whose objects it knows only as the values in
// events. The structs of events with a lifetime (Request, Process, File, HTTP, Step) have a place for
// the observers' own state, so that nobody needs a map from an object to its span.
package observe
