//go:build linux

package cli

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// turnCounter passes connections on, and counts how often the client speaks after the
// server has: what is asked at a time, or streamed, is one turn.
type turnCounter struct {
	net.Listener
	to string
	wg sync.WaitGroup

	mu     sync.Mutex
	turns  int
	server bool // spoke last
}

func countTurns(t *testing.T, url string) *turnCounter {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	harness.Must(t, err)
	c := &turnCounter{Listener: l, to: strings.TrimPrefix(url, "ws://")}
	c.wg.Go(c.serve)
	t.Cleanup(func() {
		_ = l.Close()
		c.wg.Wait()
	})
	return c
}

func (c *turnCounter) serve() {
	for {
		from, err := c.Accept()
		if err != nil {
			return
		}
		to, err := net.Dial("tcp", c.to)
		if err != nil {
			_ = from.Close()
			continue
		}
		c.wg.Go(func() { c.pass(to, from, false) })
		c.wg.Go(func() { c.pass(from, to, true) })
	}
}

func (c *turnCounter) pass(to, from net.Conn, server bool) {
	defer to.Close()
	b := make([]byte, 64<<10)
	for {
		n, err := from.Read(b)
		c.mu.Lock()
		if c.server && !server {
			c.turns++
		}
		c.server = server
		c.mu.Unlock()
		if _, failed := to.Write(b[:n]); failed != nil || err != nil {
			return
		}
	}
}

// count returns the turns since it was called last.
func (c *turnCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.turns
	c.turns = 0
	return n
}

// TestRoundTrips: copies and listings of many files do not wait for an answer per file. With
// one each, 400 files over a line of 50 ms would take 20 seconds.
func TestRoundTrips(t *testing.T) {
	_, url := harness.Server(t)
	line := countTurns(t, url)
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	const files, most = 400, 60
	for i := range files {
		name := filepath.Join(source, fmt.Sprintf("d%d", i%4), fmt.Sprint(i))
		harness.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		harness.Must(t, os.WriteFile(name, []byte("x"), 0o644))
	}
	through := "ws://" + line.Addr().String()
	for _, args := range [][]string{
		{"cp", "-r", source, ":" + dir + "/up"},
		{"cp", "-r", ":" + source, dir + "/down"},
		{"sync", source, ":" + dir + "/synced"},
		{"ls", "-l", source + "/d0"},
		{"rm", "-r", dir + "/up"},
	} {
		line.count()
		_, errs, code := harness.Run(t, "", append([]string{"remote", args[0], "--url", through}, args[1:]...)...)
		if turns := line.count(); code != 0 || turns > most {
			t.Errorf("%q: %d round trips, want at most %d; %d %s", args, turns, most, code, errs)
		} else {
			t.Logf("%s: %d", args[0], turns)
		}
	}
}
