// Package tunnel tests forwarded ports from outside, over each way to a server.
package tunnel

import (
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == "greet" {
		os.Exit(greet(os.Args[2]))
	}
	if len(os.Args) == 3 && os.Args[1] == "leave" {
		os.Exit(leave(os.Args[2]))
	}
	if len(os.Args) >= 3 && os.Args[1] == "attack" {
		os.Exit(attack(os.Args[2:]))
	}
	harness.SlowMain(m)
}

// greet listens on an address and prints a line. It sends the address to each connection, and ends
// at the end of its standard input.
func greet(address string) int {
	network := "tcp"
	if strings.HasPrefix(address, "/") {
		network = "unix"
	}
	l, err := net.Listen(network, address)
	if err != nil {
		fmt.Println(err)
		return 1
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprintf(conn, "hello from %s", address)
			_ = conn.Close()
		}
	}()
	fmt.Println("ready")
	_, _ = io.Copy(io.Discard, os.Stdin)
	return 0
}
