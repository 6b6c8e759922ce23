// Package detach keeps processes that outlive their server: detached processes (docs/spec/wire.md §4.10).
//
// Each has a keeper, which is a separate process, and a directory with its record, its lock,
// the socket of its keeper and its output. The package has both users of that directory: Store
// and Process are for the server (store.go, start.go, calls.go, read.go, end.go), Keeper is for
// the keeper (keeper.go). A server is a client of its keepers and uses the same protocol. The
// package does not depend on the server: Options provide what it needs, it sees a session as a
// Writer, and it reports events to pkg/execserver/observe. It may import execclient, wsauth,
// host and wire; it must not import pkg/execserver or the other packages below it.
//
// Begin reading with Store (store.go). Store.Start makes the directory and starts the keeper, in which the
// params go through the stages of any start (pkg/execserver/stages.go). Process.Call forwards requests to the
// keeper, and Process.Read reads from disk after the keeper has ended. Limits are in limits.go.
package detach
