package tunnel

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/testutil/faultproxy"
)

func dial(t *testing.T, url string) *execclient.Client {
	t.Helper()
	c, err := execclient.DialWebSocket(t.Context(), url, execclient.Options{})
	harness.Must(t, err)
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// exchange sends bytes through a connection to an echo server, and compares the result.
func exchange(conn net.Conn, size int, seed byte) error {
	data := make([]byte, size)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(data)
	sent := make(chan error, 1)
	go func() {
		_, err := conn.Write(data)
		if err == nil {
			err = conn.(interface{ CloseWrite() error }).CloseWrite()
		}
		sent <- err
	}()
	h := sha256.New()
	_, err := io.Copy(h, conn)
	if err := errors.Join(err, <-sent); err != nil {
		return err
	}
	if !bytes.Equal(h.Sum(nil), sum(data)) {
		return errors.New("other bytes came back")
	}
	return conn.Close()
}

func sum(data []byte) []byte { s := sha256.Sum256(data); return s[:] }

func TestTunnel(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	c := dial(t, url)
	port := harness.Echo(t)
	conn, err := c.OpenTunnel(t.Context(), execclient.TunnelTarget{Host: "127.0.0.1", Port: port})
	harness.Must(t, err)
	harness.Must(t, exchange(conn, 5<<20, 1))

	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	harness.Must(t, err)
	defer l.Close()
	go func() {
		if conn, err := l.Accept(); err == nil {
			_, _ = io.WriteString(conn, "hello")
			_ = conn.Close()
		}
	}()
	conn, err = c.OpenTunnel(t.Context(), execclient.TunnelTarget{Path: l.Addr().String()})
	harness.Must(t, err)
	if got, err := io.ReadAll(conn); string(got) != "hello" || err != nil {
		t.Errorf(`got %q, error %v; want "hello", no error`, got, err)
	}
	_ = conn.Close()

	nobody := freePort(t)
	for want, to := range map[string]execclient.TunnelTarget{
		"connection refused":        {Port: nobody},
		"no such host":              {Host: "no-such-host.invalid", Port: 1},
		"no such file or directory": {Path: "/nonexistent/socket"},
	} {
		_, err := c.OpenTunnel(t.Context(), to)
		var failed *execclient.TunnelError
		if !errors.As(err, &failed) || failed.Reason != want {
			t.Errorf("%v: %v, want %s", to, err, want)
		}
	}
}

// TestThousandTunnels opens a thousand tunnels at once. Each transfers bytes.
func TestThousandTunnels(t *testing.T) {
	_, url := harness.Server(t)
	c := dial(t, url)
	port := harness.Echo(t)
	const count = 1000
	tunnels := make([]*execclient.Tunnel, count)
	var wg sync.WaitGroup
	for i := range tunnels {
		wg.Go(func() {
			var err error
			if tunnels[i], err = c.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: port}); err != nil {
				t.Errorf("tunnel %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	for i, conn := range tunnels {
		wg.Go(func() {
			if err := exchange(conn, 10_000+i, byte(i)); err != nil {
				t.Errorf("tunnel %d: %v", i, err)
			}
		})
	}
	wg.Wait()
}

// TestCuts transfers bytes through tunnels while the connection to the server breaks again and
// again. Meanwhile connections also arrive at a port of the server.
func TestCuts(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	shape := faultproxy.Shape{Cuts: 8, Refusals: 1, First: 64 << 10, Up: 1 << 20, Down: 1 << 20, Pause: 10 * time.Millisecond}
	for seed := range uint64(6) {
		proxy, err := faultproxy.New(t.Context(), strings.TrimPrefix(url, "ws://"), faultproxy.Random(seed+1, shape))
		harness.Must(t, err)
		lost := 0
		c, err := execclient.DialWebSocket(t.Context(), "ws://"+proxy.Addr(), execclient.Options{OnStateChange: func(s execclient.StateChange) {
			if s.State == execclient.Recovering {
				lost++
			}
		}})
		harness.Must(t, err)
		var wg sync.WaitGroup
		l, err := c.Listen(t.Context(), "", 0)
		var cut *execclient.DisconnectedError
		if errors.As(err, &cut) {
			t.Logf("seed %d: cut at once", seed)
		} else {
			harness.Must(t, err)
			wg.Go(func() { reverse(t, l, seed) })
		}
		port := harness.Echo(t)
		for i := range 3 {
			wg.Go(func() {
				conn, err := open(t.Context(), c, port)
				if err == nil {
					err = exchange(conn, 2<<20, byte(i))
				}
				if err != nil {
					t.Errorf("seed %d: tunnel %d: %v", seed, i, err)
				}
			})
		}
		wg.Wait()
		_ = c.Close()
		if lost == 0 {
			t.Errorf("seed %d: nothing was cut: %+v", seed, proxy.Stats())
		}
		proxy.Close()
	}
}

// open opens a tunnel. It retries if the connection breaks before the answer.
func open(ctx context.Context, c *execclient.Client, port uint16) (*execclient.Tunnel, error) {
	for {
		conn, err := c.OpenTunnel(ctx, execclient.TunnelTarget{Port: port})
		var cut *execclient.DisconnectedError
		if !errors.As(err, &cut) || c.Err() != nil {
			return conn, err
		}
	}
}

// reverse makes a program on the server's machine connect to a port there that leads to this test.
// If the connection arrives at the moment of a cut, it is reset, and the program tries again.
func reverse(t *testing.T, l net.Listener, seed uint64) {
	var serving sync.WaitGroup
	serving.Go(func() { harness.ServeEcho(l) })
	var err error
	for range 20 {
		var conn net.Conn
		if conn, err = net.Dial("tcp", l.Addr().String()); err == nil {
			err = exchange(conn, 1<<20, 9)
		}
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("seed %d: a connection to the server's port: %v", seed, err)
	}
	_ = l.Close()
	serving.Wait()
}

// TestListen makes the server listen, and tests the events that end it.
func TestListen(t *testing.T) {
	t.Parallel()
	_, url := harness.Server(t)
	c := dial(t, url)
	l, err := c.Listen(t.Context(), "", 0)
	harness.Must(t, err)
	at := l.Addr().(*net.TCPAddr)
	if !at.IP.IsLoopback() {
		t.Errorf("it listens on %v", at)
	}
	_, err = c.Listen(t.Context(), "", uint16(at.Port))
	var failed *execclient.TunnelError
	if !errors.As(err, &failed) || failed.Failure != execproto.TunnelInUse {
		t.Errorf("a port that is taken: %v", err)
	}
	conn, err := net.Dial("tcp", at.String())
	harness.Must(t, err)
	far, err := l.Accept()
	harness.Must(t, err)
	if got := far.RemoteAddr().String(); got != conn.LocalAddr().String() {
		t.Errorf("it came from %s, not %v", got, conn.LocalAddr())
	}
	// The client disconnects. Its ports and tunnels end at once, and not only with the session.
	harness.Must(t, c.Close())
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("the connection is open without a client")
	}
	awaitRefusal(t, at.String())
	_, err = l.Accept()
	if !errors.Is(err, execclient.ErrClosed) {
		t.Errorf("Accept: %v", err)
	}
}

// TestSessionEnds: the server is lost permanently, and the session ends.
func TestSessionEnds(t *testing.T) {
	t.Parallel()
	srv, url := harness.Server(t)
	c, err := execclient.DialWebSocket(t.Context(), url, execclient.Options{RecoveryTimeout: 100 * time.Millisecond})
	harness.Must(t, err)
	defer c.Close()
	conn, err := c.OpenTunnel(t.Context(), execclient.TunnelTarget{Port: harness.Echo(t)})
	harness.Must(t, err)
	_ = srv.Process.Kill()
	if _, err := conn.Read(make([]byte, 1)); err == nil || errors.Is(err, io.EOF) {
		t.Errorf("a tunnel whose session is lost: %v", err)
	}
}

func portText(port uint16) string { return strconv.Itoa(int(port)) }
