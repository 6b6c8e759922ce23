//go:build linux || darwin

// Package execserver is the exec-server: it answers the requests of clients
// about processes, files and HTTP, over websockets or any other transport.
//
// A program embeds it with a listener, a context and a logger of its own; see
// the example. New makes a server, Serve or ServeHTTP pass it connections, and
// Shutdown ends it with all processes that it started.
//
// How it works, from the outside in: a connection (conn.go) has one reader,
// which decodes messages and calls the handlers of requests (methods.go, and a
// file for each family). Handlers run on the reader and must not block: work
// that may take time runs in a lane (lanes.go), waiting in a goroutine of its own.
// Answers and notifications are encoded into the connection's queue
// (outbox.go), whose one writer sends them; when the queue is full, adding to it
// blocks: that is the backpressure on processes, files and HTTP bodies. A client
// that acknowledges output bounds it per process or HTTP response. A session
// (session.go, proc.go) owns processes and outlives its connection by
// Options.SessionTTL. Limits are in limits.go, error codes in errors.go.
package execserver
