// Package files answers the requests about files (docs/spec/wire.md §5): operations on paths, file handles, archives,
// watches, and the discovery of plugins and skills.
//
// A request is carried out in this process or, if a sandbox confines it, by a helper: codex-fs in that sandbox. Both
// run the same row of the table of operations (pkg/fileop/fsops).
//
// The package does not know the server: Options say what it needs of it, it sees a connection by the interface Conn,
// and tells pkg/execserver/observe what happens. It may import fileop, host, sandbox and wire; it must not import
// pkg/execserver or the other packages below it but observe, tracing and reply.
//
// Begin reading with Files (files.go), which has what the requests of a connection have opened. Its methods answer the
// requests; the server says in which order they run (pkg/execserver/methods.go). worker.go chooses who carries a
// request out, and helper.go starts the helper. Handles are in handles.go, watches in watch.go and missing.go, the
// discovery in discover.go. Limits are in limits.go.
package files
