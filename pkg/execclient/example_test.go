//go:build linux

package execclient_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execclient/fsx"
	"codex.internal/pkg/execserver"
)

// exampleServer is a server in this process; the URL is for DialWebSocket.
func exampleServer() (url string, stop func()) {
	srv, err := execserver.New(execserver.Options{})
	if err != nil {
		panic(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(context.Background(), l)
	}()
	return "ws://" + l.Addr().String(), func() {
		_ = srv.Shutdown(context.Background())
		<-served
	}
}

// exampleClient is a client of such a server.
func exampleClient(ctx context.Context) (client *execclient.Client, stop func()) {
	url, stopServer := exampleServer()
	client, err := execclient.DialWebSocket(ctx, url, execclient.Options{})
	if err != nil {
		panic(err)
	}
	return client, func() {
		_ = client.Close()
		stopServer()
	}
}

// Run a command and get its output.
func Example() {
	ctx := context.Background()
	url, stop := exampleServer()
	defer stop()

	client, err := execclient.DialWebSocket(ctx, url, execclient.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer client.Close()
	out, err := client.CommandContext(ctx, "sh", "-c", "echo from the executor; exit 3").Output()
	var exit *execclient.ExitError
	if errors.As(err, &exit) {
		fmt.Printf("%sexit code %d\n", out, exit.ExitCode())
	}
	// Output:
	// from the executor
	// exit code 3
}

// Communicate with a running command: write to its standard input and read its answers.
func ExampleCmd_pipes() {
	ctx := context.Background()
	client, stop := exampleClient(ctx)
	defer stop()

	cmd := client.CommandContext(ctx, "sh", "-c", `while read name; do echo "hello $name"; done; echo bye`)
	in, err := cmd.StdinPipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Println(err)
		return
	}
	if err := cmd.Start(); err != nil {
		fmt.Println(err)
		return
	}
	answers := bufio.NewScanner(out)
	for _, name := range []string{"Ada", "Grace"} {
		fmt.Fprintln(in, name)
		answers.Scan()
		fmt.Println(answers.Text())
	}
	in.Close()
	for answers.Scan() {
		fmt.Println(answers.Text())
	}
	if err := cmd.Wait(); err != nil {
		fmt.Println(err)
	}
	// Output:
	// hello Ada
	// hello Grace
	// bye
}

// Confine a command, and see that the sandbox was the reason of its failure.
//
// The output is not compared, because not every host can confine. cmd/codex/e2e runs such
// commands.
func ExampleReadOnlySandbox() {
	ctx := context.Background()
	client, stop := exampleClient(ctx)
	defer stop()

	cmd := client.CommandContext(ctx, "sh", "-c", "echo mine > /var/tmp/note")
	cmd.Sandbox = execclient.ReadOnlySandbox()
	err := cmd.Run()
	switch {
	case errors.Is(err, execclient.ErrSandboxDenied):
		fmt.Println("not permitted; ask before you run it again without a sandbox")
	case err != nil:
		fmt.Println(err)
	}
}

// Read, write and walk the server's files, by its own operations or wherever
// an fs.FS is taken.
func ExampleFS() {
	ctx := context.Background()
	client, stop := exampleClient(ctx)
	defer stop()
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)

	files := client.FS()
	for name, text := range map[string]string{"a.txt": "alpha", "sub/b.txt": "beta"} {
		at := filepath.Join(dir, name)
		if err := files.MkdirAll(ctx, filepath.Dir(at)); err != nil {
			fmt.Println(err)
			return
		}
		// The file is replaced in one step, when it is complete.
		if err := files.WriteStream(ctx, at, strings.NewReader(text), execclient.WriteOptions{Atomic: true}); err != nil {
			fmt.Println(err)
			return
		}
	}
	tree := fsx.New(ctx, files, dir)
	err = fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := fs.ReadFile(tree, name)
		fmt.Printf("%s: %s\n", name, text)
		return err
	})
	if err != nil {
		fmt.Println(err)
	}
	_, err = files.ReadFile(ctx, filepath.Join(dir, "c.txt"))
	fmt.Println("c.txt is missing:", errors.Is(err, fs.ErrNotExist))
	// Output:
	// a.txt: alpha
	// sub/b.txt: beta
	// c.txt is missing: true
}

// Make an HTTP request from the server's machine.
func ExampleClient_HTTP() {
	ctx := context.Background()
	client, stop := exampleClient(ctx)
	defer stop()
	inside := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "you asked for %s", r.URL.Path)
	}))
	defer inside.Close()

	web := &http.Client{Transport: client.HTTP()}
	res, err := web.Get(inside.URL + "/status")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	fmt.Println(res.Status, string(body), err)
	// Output:
	// 200 OK you asked for /status <nil>
}
