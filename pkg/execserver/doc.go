// Package execserver is the exec-server: it answers the requests of clients
// about processes, files and HTTP, over websockets or any other transport.
//
// A program embeds it with a listener, a context and a logger of its own; see
// the example. New makes a server, Serve or ServeHTTP pass it connections, and
// Shutdown ends it with all processes that it started.
//
// How it works, from the outside in: a connection (conn.go) has one reader. For each request it
// finds the row of the method in a table (methods.go). The row decodes the params, and
// determines in which lane (lanes.go) the request runs and which requests it follows. Its
// handler, in a file or a package for each family, returns a result or an error, which the
// dispatcher (request.go) sends. Handlers run in goroutines of the lane. Handlers of
// laneReader, and the part of a row that accepts a request, run on the reader and must not
// block. Answers and notifications are encoded into the connection's queue (outbox.go), whose
// one writer sends them; when the queue is full, adding to it blocks: that is the backpressure
// on processes, files and HTTP bodies. A client that acknowledges output bounds the output in
// flight, per process or HTTP response. A session (session.go, proc.go) owns processes and
// outlives its connection by Options.SessionTTL. A process/start is built in start.go and goes
// through the stages of stages.go. Limits are in limits.go, error codes in errors.go.
//
// Separate parts have packages below this one, each with a doc.go that names the file to read
// first: confine (how requests are confined), detach (detached processes and their keepers),
// environment (the description of the machine for clients), files (requests about files),
// tunnels, statuspage, observe (events for metrics, the audit trail, traces and the log), reply
// (kinds of results), share (how limits are divided among clients), wsauth (who may connect).
// They do not import this package; confine.go, detached.go, keeper.go, environment.go,
// files.go, shares.go, status.go and tunnel.go connect them with the methods of the protocol.
// This package may import host, fileop, sandbox, execclient, the protocol's types and wire
// (cmd/codex/cli: TestGroupsImportWhatTheyMay).
package execserver
