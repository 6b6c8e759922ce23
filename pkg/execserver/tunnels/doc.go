// Package tunnels carries TCP connections and Unix sockets between a client and the server's machine
// (docs/spec/wire.md §11).
//
// It knows the streams of a tunnel (pkg/wire/tunnel), what a server may reach (egress.Ceiling), how to
// reach into a sandbox (pkg/sandbox/runner) and the messages of the protocol. It does not know the
// server: it sees a connection by the interface Conn, and tells pkg/execserver/observe what happens. It
// must not import pkg/execserver or the other packages below it.
//
// Begin reading with Tunnels (tunnels.go), which has the tunnels of a session: Admit and Run open one,
// Data, Ack and Closed take messages of the client, Resume moves all to the next connection. Where a
// tunnel leads is in target.go, and into sandboxes in inside.go. Ports of this machine whose connections
// become tunnels are in listen.go. What tells a client on which ports its processes listen is in
// ports.go. Limits are in limits.go.
package tunnels
