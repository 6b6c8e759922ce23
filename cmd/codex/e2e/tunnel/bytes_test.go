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

// stalledBytes is more than the windows of a tunnel and the buffers of its socket hold.
const stalledBytes = 12 << 20

// TestManyStalledTunnels has so many tunnels that do not move, full in both directions, that the
// windows of the session are used up. Another one moves its bytes anyway.
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
			wg.Go(func() { // writes, and does not read until all is written
				defer conn.Close()
				_, _ = conn.Write(make([]byte, stalledBytes))
				_, _ = io.Copy(io.Discard, conn)
			})
		}
	})
	const count = 200 // 128 full windows together take this much
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
	harness.Must(t, conn.SetDeadline(time.Now().Add(time.Minute))) // so that a stalled one fails
	harness.Must(t, exchange(conn, 4<<20, 1))
	// The data that waited in a stalled one arrives completely once it is read.
	if n, err := io.ReadFull(tunnels[count-1], make([]byte, stalledBytes)); err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	for _, stalled := range tunnels {
		_ = stalled.Abort("over")
	}
	_ = l.Close()
	wg.Wait()
}
