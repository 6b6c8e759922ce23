package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// turnCounter counts turns: how often a client sends after the server has sent. Requests that are
// sent together, or streamed, are one turn.
type turnCounter struct {
	mu     sync.Mutex
	turns  int
	server bool // the server has sent the last message
}

// spoke returns a function that must be called when the server, or a client, sends a message.
func (c *turnCounter) spoke(server bool) func([]byte) []byte {
	return func(b []byte) []byte {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.server && !server {
			c.turns++
		}
		c.server = server
		return b
	}
}

// count returns the number of turns since the last call of count.
func (c *turnCounter) count() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := c.turns
	c.turns = 0
	return n
}

// TestRoundTrips: copies and listings of many files do not wait for an answer for each file. If
// they did, 400 files over a network with a round trip of 50 ms would take 20 seconds.
func TestRoundTrips(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	_, url := harness.Server(t)
	var counter turnCounter
	through := between(t, url, counter.spoke(false), counter.spoke(true))
	dir := t.TempDir()
	source := filepath.Join(dir, "source")
	const files, most = 400, 60
	for i := range files {
		name := filepath.Join(source, fmt.Sprintf("d%d", i%4), fmt.Sprint(i))
		harness.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		harness.Must(t, os.WriteFile(name, []byte("x"), 0o644))
	}
	for _, args := range [][]string{
		{"cp", "-r", source, ":" + dir + "/up"},
		{"cp", "-r", ":" + source, dir + "/down"},
		{"sync", source, ":" + dir + "/synced"},
		{"ls", "-l", source + "/d0"},
		{"rm", "-r", dir + "/up"},
	} {
		counter.count()
		_, errs, code := harness.Run(t, "", append([]string{"remote", args[0], "--url", through}, args[1:]...)...)
		if turns := counter.count(); code != 0 || turns == 0 || turns > most { // the handshake is one turn
			t.Errorf("%q: %d round trips, want at most %d; %d %s", args, turns, most, code, errs)
		} else {
			t.Logf("%s: %d", args[0], turns)
		}
	}
}
