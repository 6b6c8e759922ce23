// Command relaybridge is a websocket server of the exec-server protocol that
// forwards each connection to an executor behind a rendezvous service, as a stream
// of one harness. scripts/conformance replays recorded conversations through it.
//
//	CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN=TOKEN relaybridge SERVICE-URL ENVIRONMENT-ID
//
// It prints the URL at which it listens, and ends with SIGINT or SIGTERM.
package main

import (
	"context"
	"errors"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/account/registry"
	"codex.internal/pkg/relay"
	"codex.internal/pkg/relay/noise"
)

// connectTime bounds connecting to the executor, because the service may not know the executor yet.
const connectTime = 20 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "relaybridge:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	if len(os.Args) != 3 {
		return errors.New("expected SERVICE-URL ENVIRONMENT-ID")
	}
	harness, err := newHarness(os.Args[1], os.Args[2], os.Getenv("CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN"))
	if err != nil {
		return err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	b := &bridge{harness: harness, ctx: ctx}
	server := &http.Server{Handler: b}
	context.AfterFunc(ctx, func() { _ = server.Close() })
	fmt.Printf("ws://%s\n", l.Addr())
	if err := server.Serve(l); ctx.Err() == nil {
		return err
	}
	b.connections.Wait()
	return nil
}

// newHarness returns a harness of an environment of the service.
func newHarness(url, environment, token string) (*relay.Harness, error) {
	client, err := registry.New(registry.Options{BaseURL: url, Authorizer: registry.Bearer(token, "")})
	if err != nil {
		return nil, err
	}
	identity, err := noise.GenerateIdentity()
	if err != nil {
		return nil, err
	}
	return relay.NewHarness(relay.HarnessOptions{Identity: identity, Connect: func(ctx context.Context) (relay.Bundle, error) {
		c, err := client.Connect(ctx, environment, identity.PublicKey())
		return relay.Bundle{
			Registration: relay.Registration{URL: c.URL, EnvironmentID: environment, RegistrationID: c.RegistrationID},
			ExecutorKey:  c.ExecutorKey, Authorization: c.Authorization,
		}, err
	}}), nil
}

// bridge serves websockets. Both ends of a connection end together.
type bridge struct {
	harness     *relay.Harness
	ctx         context.Context
	connections sync.WaitGroup
}

func (b *bridge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	b.connections.Add(1)
	defer b.connections.Done()
	stream, err := b.dial()
	if err != nil {
		log.Print("cannot reach the executor: ", err)
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = stream.Close() }()
	ws, err := new(websocket.Upgrader).Upgrade(w, r, nil)
	if err != nil {
		log.Print("cannot upgrade a connection: ", err) // Upgrade has answered
		return
	}
	unhook := context.AfterFunc(b.ctx, func() { _ = ws.Close() })
	defer unhook()
	var answers sync.WaitGroup
	answers.Go(func() { b.answer(ws, stream) })
	for {
		_, message, err := ws.ReadMessage()
		if err != nil || stream.Write(message) != nil {
			break
		}
	}
	_ = stream.Close()
	answers.Wait()
}

// answer forwards the executor's messages. When the stream ends, it ends the connection.
func (b *bridge) answer(ws *websocket.Conn, stream *relay.Conn) {
	defer func() { _ = ws.Close() }()
	for {
		message, err := stream.Read()
		if err != nil || ws.WriteMessage(websocket.TextMessage, message) != nil {
			return
		}
	}
}

// dial opens a stream to the executor.
func (b *bridge) dial() (*relay.Conn, error) {
	ctx, cancel := context.WithTimeout(b.ctx, connectTime)
	defer cancel()
	for attempt := 0; ; attempt++ {
		stream, err := b.harness.Dial(ctx)
		var refused interface{ Retryable() bool }
		if err == nil || !errors.As(err, &refused) || !refused.Retryable() {
			return stream, err
		}
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(b.harness.RetryPause(attempt)):
		}
	}
}
