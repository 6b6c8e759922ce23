// Package execclient is a client of exec-servers: it runs commands on another
// machine, reads and writes its files and makes HTTP requests from there.
//
//	client, err := execclient.DialWebSocket(ctx, "ws://127.0.0.1:8765", execclient.Options{})
//	...
//	defer client.Close()
//	out, err := client.CommandContext(ctx, "uname", "-a").Output()
//
// The API follows os/exec of the standard library:
//
//   - Cmd is an exec.Cmd: Run, Output, Start and Wait, pipes, a context. With
//     a Sandbox the server confines it, and errors.Is(err, ErrSandboxDenied)
//     tells when that was why it failed.
//   - FS reads and writes files with the errors of package fs. Package fsx
//     makes an fs.FS of a directory.
//   - HTTP is an http.RoundTripper.
//   - OpenTunnel and Listen are connections and a port of the server's machine, as a
//     net.Conn and a net.Listener.
//
// Below that, Client.Start and Process have each request of the protocol about
// processes, Process.Events all that happens to one, and Client.Call whatever
// else there is.
//
// # Lost connections
//
// A client that was made with DialWebSocket or Dial survives the loss of its
// connection: it resumes the session, processes run on, and their events come
// in order and once, as if nothing had been. Options.OnStateChange tells. What
// cannot be repeated safely fails with a *DisconnectedError; so do open files
// and HTTP responses, which belong to a connection. When the session cannot be
// resumed the client has failed: see Client.Done and Client.Err.
//
// # Servers
//
// It speaks to Codex CLI's servers too, from version 0.142.0. Client.Has and
// Client.Capabilities report which extensions a server has; a call that needs another
// one fails with ErrUnsupported. Without flow control, a command whose output is not
// consumed for too long ends with an *EventsLostError instead of being held
// back.
//
// # Concurrency
//
// The methods of Client, Process and FS may be called from any goroutine.
// Calls return soon after their context has ended. Close waits for all that
// the client has started.
//
// The rules are in docs/spec/client.md §1, §2 and §3.
package execclient
