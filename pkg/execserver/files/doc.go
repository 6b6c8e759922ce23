// Package files answers the requests about files (docs/spec/wire.md §5): operations on paths, file handles, archives,
// watches, and the discovery of plugins and skills.
//
// A request is carried out in this process or, if a sandbox confines it, by a helper: codex-fs in that sandbox. Both
// run the same row of the table of operations (pkg/fileop/fsops).
//
// The package does not depend on the server: Options provide what it needs, it sees a
// connection as the interface Conn, and it reports events to pkg/execserver/observe. It may
// import fileop, host, sandbox and wire; it must not import pkg/execserver or the other
// packages below it but observe, tracing and reply.
//
// Begin reading with Files (files.go), which has the open handles and watches of a connection.
// Its methods answer the requests; the server determines their order
// (pkg/execserver/methods.go). worker.go chooses whether this process or a helper carries a
// request out, and helper.go starts the helper. Handles are in handles.go, watches in watch.go
// and missing.go, the discovery in discover.go. Limits are in limits.go.
package files
