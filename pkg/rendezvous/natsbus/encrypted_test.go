package natsbus

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"
)

// plaintextServer is a NATS server without TLS. told stops it, and returns the bytes that the first
// client has sent.
func plaintextServer(t *testing.T) (port string, told func() string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	heard := make(chan string, 1)
	go func() {
		conn, err := l.Accept()
		_ = l.Close() // later attempts are refused
		if err != nil {
			heard <- "" // nobody came
			return
		}
		defer conn.Close()
		_, _ = fmt.Fprint(conn, "INFO {\"server_id\":\"x\",\"version\":\"2.11.0\",\"proto\":1,\"headers\":true,\"max_payload\":8388608,\"jetstream\":true,\"auth_required\":true}\r\n")
		_ = conn.SetReadDeadline(time.Now().Add(dialTime))
		text, _ := io.ReadAll(io.LimitReader(conn, 1<<10)) // what came before the end, or in time
		heard <- string(text)
	}()
	_, port, _ = net.SplitHostPort(l.Addr().String())
	return port, func() string {
		_ = l.Close()
		return <-heard
	}
}

// TestSecretsAreEncrypted: a password is sent to a server without TLS only if the server is on this
// machine or the options allow it. Linux treats 0.0.0.0 as this machine, but the program does not.
func TestSecretsAreEncrypted(t *testing.T) {
	t.Parallel()
	const password = "hunter2"
	for _, tt := range []struct {
		name, servers string // with a port
		plaintext     bool
		want          bool // the password is told
	}{
		{"loopback", "nats://node:" + password + "@127.0.0.1:%s", false, true},
		{"elsewhere", "nats://node:" + password + "@0.0.0.0:%s", false, false},
		{"without a scheme", "node:" + password + "@0.0.0.0:%s", false, false},
		{"a token", "nats://" + password + "@0.0.0.0:%s", false, false},
		{"a websocket", "ws://node:" + password + "@0.0.0.0:%s", false, false},
		{"both", "nats://127.0.0.1:1,nats://node:" + password + "@0.0.0.0:%s", false, false},
		{"allowed", "nats://node:" + password + "@0.0.0.0:%s", true, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			port, told := plaintextServer(t)
			ctx, cancel := context.WithTimeout(t.Context(), 2*dialTime)
			defer cancel()
			var log strings.Builder
			_, err := Connect(ctx, Options{Servers: fmt.Sprintf(tt.servers, port), AllowPlaintext: tt.plaintext, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if text := told(); strings.Contains(text, password) != tt.want {
				t.Errorf("got error %v, the server was told %q; want the password told: %v", err, text, tt.want)
			}
			if tt.name == "elsewhere" && !strings.Contains(log.String(), "--allow-plaintext-nats") {
				t.Errorf("got the log\n%s\nwant one that names --allow-plaintext-nats", &log)
			}
		})
	}
}

// TestOthersOfALocalServer: if a server on this machine announces a server on another machine, the
// node does not connect there without TLS.
func TestOthersOfALocalServer(t *testing.T) {
	d := &localDialer{net.Dialer{Timeout: dialTime}}
	for _, address := range []string{"192.0.2.1:4222", "[2001:db8::1]:4222", "0.0.0.0:4222", "4222"} {
		if conn, err := d.Dial("tcp", address); conn != nil || !errors.Is(err, errPlaintext) {
			t.Errorf("%s: got connection %v, error %v; want %v", address, conn, err, errPlaintext)
		}
	}
	port, _ := plaintextServer(t)
	conn, err := d.Dial("tcp", "127.0.0.1:"+port)
	if err != nil {
		t.Fatalf("loopback: got error %v, want none", err)
	}
	_ = conn.Close()
}
