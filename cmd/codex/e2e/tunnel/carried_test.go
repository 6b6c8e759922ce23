package tunnel

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// upgrade requests a websocket over a connection, and returns the status of the response.
func upgrade(t *testing.T, conn net.Conn, err error) int {
	t.Helper()
	harness.Must(t, err)
	defer conn.Close()
	_, err = fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"+
		"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n")
	harness.Must(t, err)
	answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
	harness.Must(t, err)
	return answer.StatusCode
}

// TestCarriedConnectionsReachNoServer: a server and a client carry connections to a second server, which belongs to the
// same user and requires no token. The second server must not treat the origin of a carried connection as the user.
// Otherwise a client whose token permits only sandboxed commands could run other commands there.
func TestCarriedConnectionsReachNoServer(t *testing.T) {
	t.Parallel()
	socket := filepath.Join(t.TempDir(), "s")
	_, victim := harness.Server(t)
	harness.Server(t, "--listen", "unix://"+socket)
	address := strings.TrimPrefix(victim, "ws://")
	_, number, _ := net.SplitHostPort(address)
	port, err := strconv.ParseUint(number, 10, 16)
	harness.Must(t, err)
	for network, to := range map[string]string{"tcp": address, "unix": socket} {
		conn, err := net.Dial(network, to)
		if status := upgrade(t, conn, err); status != http.StatusSwitchingProtocols {
			t.Fatalf("not carried, over %s: %d", network, status)
		}
	}

	_, url := harness.Server(t)
	c := dial(t, url)
	for _, to := range []execclient.TunnelTarget{
		{Port: uint16(port)}, {Host: "127.0.0.1", Port: uint16(port)}, {Host: "::ffff:127.0.0.1", Port: uint16(port)}, {Path: "file://" + socket},
	} {
		tunnel, err := c.OpenTunnel(t.Context(), to)
		if status := upgrade(t, tunnel, err); status != http.StatusForbidden {
			t.Errorf("through a tunnel to %+v: %d, want %d", to, status, http.StatusForbidden)
		}
	}
	answer, err := c.DoHTTP(t.Context(), execproto.HTTPRequestParams{Method: "GET", URL: "http://" + address + "/status", RequestID: "r"})
	if err != nil || answer.Status != http.StatusForbidden {
		t.Errorf("by http/request: %d, %v; want %d", answer.Status, err, http.StatusForbidden)
	}
	_, said := forward(t, nil, 2, "--url", url, "forward", "-R", "0:"+number, "-R", "0:"+socket)
	for _, line := range said {
		conn, err := net.Dial("tcp", strings.Fields(line)[0])
		if status := upgrade(t, conn, err); status != http.StatusForbidden {
			t.Errorf("by forward -R (%s): %d, want %d", line, status, http.StatusForbidden)
		}
	}
}
