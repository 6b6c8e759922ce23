// Package tunnels carries TCP connections and Unix sockets between a client and the server's machine
// (docs/spec/wire.md §11).
//
// It uses the streams of a tunnel (pkg/wire/tunnel), the limits on targets (egress.Ceiling),
// access into sandboxes (pkg/sandbox/runner) and the messages of the protocol. It does not
// depend on the server: a connection is the interface Conn, and events are reported to
// pkg/execserver/observe. The package must not import pkg/execserver or the other packages
// below it.
//
// Begin reading with Tunnels (tunnels.go), which has the tunnels of a session: Admit and Run open one,
// Data, Ack and Closed handle messages of the client, Resume moves all to the next connection. Targets
// are in target.go, and those inside of sandboxes in inside.go. Ports of this machine whose connections
// become tunnels are in listen.go. The watch of ports on which processes listen is in ports.go. Limits
// are in limits.go.
package tunnels
