package tunnel

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
)

// stalledBytes exceeds the windows of a tunnel and the buffers of its sockets.
const stalledBytes = 12 << 20

// TestManyStalledTunnels opens so many stalled tunnels, which are full in both directions, that
// they use up the session's windows. Another tunnel still transfers its bytes.
func TestManyStalledTunnels(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	c := dial(t, url)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	var wg sync.WaitGroup
	wg.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			wg.Go(func() { // writes all data before it reads
				defer conn.Close()
				_, _ = conn.Write(make([]byte, stalledBytes))
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	const count = 200 // 128 full windows are as large as the window of the session
	tunnels := make([]*execclient.Tunnel, count)
	for i := range tunnels {
		tunnels[i], err = c.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: uint16(l.Addr().(*net.TCPAddr).Port)})
		harness.Must(t, err)
		wg.Go(func() {
			_, _ = tunnels[i].Write(make([]byte, stalledBytes))
		})
	}
	conn, err := c.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: harness.Echo(t)})
	harness.Must(t, err)
	harness.Must(t, conn.SetDeadline(time.Now().Add(time.Minute))) // makes a stalled tunnel fail
	harness.Must(t, exchange(conn, 4<<20, 1))
	// The data that waited in a stalled tunnel arrives completely when it is read.
	if n, err := io.ReadFull(tunnels[count-1], make([]byte, stalledBytes)); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, stalled := range tunnels {
		_ = stalled.Abort("over")
	}
	_ = l.Close()
	wg.Wait()
}
