package execserver_test

import (
	"context"
	"fmt"
	"net"
	"os"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver"
)

// A program runs the server with a listener of its own and uses it with the
// client of this project.
func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()

	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		fmt.Println(err)
		return
	}
	go func() { _ = srv.Serve(ctx, listener) }() // ends with ctx or Shutdown
	defer func() { _ = srv.Shutdown(context.Background()) }()

	client, err := execclient.DialWebSocket(ctx, "ws://"+listener.Addr().String(), execclient.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	p, err := client.Start(ctx, execproto.StartParams{
		ProcessID: "greeting", Argv: []string{"echo", "hello from a process"}, Cwd: "file:///",
		Env: map[string]string{"PATH": "/usr/bin:/bin"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	exit, err := p.Stream(ctx, os.Stdout, os.Stderr)
	fmt.Println("exit code", exit.Code, err)
	// Output:
	// hello from a process
	// exit code 0 <nil>
}
