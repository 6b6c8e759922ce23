// Package detach keeps processes that outlive their server: detached processes (docs/spec/wire.md §4.10).
//
// Each has a keeper, a process of its own, and a directory with its record, its lock, the socket of its keeper
// and its output. The package knows both ends of that directory: Store and Process are the server's (store.go,
// start.go, calls.go, read.go, end.go), Keeper is the keeper's (keeper.go). A server speaks to a keeper by the
// protocol itself, as its client. It does not know the server: Options provide what it needs, a session is a
// Writer for it, and it reports events to pkg/execserver/observe. It may import execclient, wsauth, host and
// wire; it must not import pkg/execserver or the other packages below it.
//
// Begin reading with Store (store.go). Store.Start makes the directory and starts the keeper, in which the
// params go through the stages of any start (pkg/execserver/stages.go). Process.Call forwards requests to the
// keeper, and Process.Read reads from disk after the keeper has ended. Limits are in limits.go.
package detach
