// Package execclient is a client of exec-servers: it runs commands on another machine, reads
// and writes its files, and makes HTTP requests from there.
//
//	client, err := execclient.DialWebSocket(ctx, "ws://127.0.0.1:8765", execclient.Options{})
//	...
//	defer client.Close()
//	out, err := client.CommandContext(ctx, "uname", "-a").Output()
//
// The API follows the standard library:
//
//   - Cmd is used like an exec.Cmd: Run, Output, Start and Wait, pipes, a context. With a
//     Sandbox the server confines the command, and errors.Is(err, ErrSandboxDenied) reports
//     whether that was probably the reason of a failure.
//   - FS reads and writes files with the errors of package fs. Package fsx
//     makes an fs.FS of a directory.
//   - HTTP is an http.RoundTripper.
//   - OpenTunnel and Listen return a net.Conn and a net.Listener of the server's machine.
//
// Below that, Client.Start and Process have the protocol's requests about processes,
// Process.Events returns all events of one, and Client.Call makes any other request.
//
// # Lost connections
//
// A client from DialWebSocket or Dial survives a lost connection: it resumes the session,
// processes continue, and each of their events arrives once and in order.
// Options.OnStateChange reports the loss and the recovery. Requests that cannot be repeated
// safely fail with a *DisconnectedError. So do open files and HTTP responses, which belong to
// a connection. If the session cannot be resumed the client has failed: see Client.Done and
// Client.Err.
//
// # Servers
//
// It also works with Codex CLI's servers, from version 0.142.0. Client.Has and
// Client.Capabilities report which extensions a server has; a call that needs a missing
// extension fails with ErrUnsupported. Without flow control, a command whose output is not
// consumed for too long ends with an *EventsLostError instead of being held back.
//
// # Concurrency
//
// The methods of Client, Process and FS may be called from any goroutine. Calls with a
// context return soon after it has ended. Close waits for all goroutines of the client.
//
// The rules are in docs/spec/client.md §1, §2 and §3.
package execclient
