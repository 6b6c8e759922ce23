//go:build linux || darwin

// Package execserver is the exec-server: it answers the requests of clients
// about processes, files and HTTP, over websockets or any other transport.
//
// A program embeds it with a listener, a context and a logger of its own; see
// the example. New prepares a server, Serve or ServeHTTP bring it connections,
// Shutdown ends it with everything that it started.
//
// How it works, from the outside in: a connection (conn.go) has one reader,
// which decodes messages and hands requests to their handlers (methods.go,
// and a file for each family); handlers run on the reader and must not block,
// so they put what may take time into a lane (lanes.go) or let it wait beside.
// Answers and notifications are encoded into the connection's queue
// (outbox.go), whose one writer sends them; when the queue is full, whoever
// adds to it waits, and that is the backpressure on everything. Clients that
// acknowledge what they consume bound it for a process or an HTTP response
// alone. A session (session.go, proc.go) owns processes and outlives its
// connection for a while. Limits are in limits.go, error codes in errors.go.
package execserver
