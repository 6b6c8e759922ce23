package cli

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil/faultproxy"
)

// TestCopiesGoOnAfterCuts: after the connection is reset, a copy continues behind the last complete
// file, in both directions. The trees are equal in the end.
func TestCopiesGoOnAfterCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	r := rand.New(rand.NewPCG(1, 2))
	for i := range 120 {
		name := filepath.Join(dir, "w", fmt.Sprint(i%7), fmt.Sprint(i))
		harness.Must(t, os.MkdirAll(filepath.Dir(name), 0o755))
		data := make([]byte, r.IntN(300_000))
		for j := range data {
			data[j] = byte(r.Uint32())
		}
		harness.Must(t, os.WriteFile(name, data, 0o644))
	}
	for _, tt := range []struct {
		args []string
		dir  faultproxy.Direction
	}{
		{[]string{dir + "/w", ":" + dir + "/up"}, faultproxy.Up},
		{[]string{":" + dir + "/w", dir + "/down"}, faultproxy.Down},
	} {
		cut := func(after int64) faultproxy.Conn {
			return faultproxy.Conn{Faults: []faultproxy.Fault{{Kind: faultproxy.Reset, Dir: tt.dir, After: after}}}
		}
		proxy, err := faultproxy.New(t.Context(), strings.TrimPrefix(url, "ws://"), faultproxy.Plan{
			Conns: []faultproxy.Conn{cut(5 << 20), cut(7 << 20), cut(6<<20 + 123)},
		})
		harness.Must(t, err)
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "-rpq", "--url", "ws://" + proxy.Addr()}, tt.args...)...)
		faults := proxy.Stats().Faults
		proxy.Close()
		if code != 0 || faults != 3 {
			t.Errorf("%q: %d %q, %d cuts", tt.args, code, errs, faults)
		}
		if got, want := described(t, strings.TrimPrefix(tt.args[1], ":"), true), described(t, dir+"/w", true); got != want {
			t.Errorf("%q: %s\nwant\n%s", tt.args, got, want)
		}
	}
}

// TestFilesGoOnAfterCuts: after the connection is reset, a copy of one file goes on behind what has
// arrived, in both directions, and in the sandbox of a token. It leaves no temporary file.
func TestFilesGoOnAfterCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	_, open := harness.Server(t)
	data := make([]byte, 24<<20)
	for i := range data {
		data[i] = byte(i >> 16)
	}
	for _, tt := range []struct {
		name      string
		direction faultproxy.Direction
		confined  bool
	}{
		{"upload", faultproxy.Up, false}, {"download", faultproxy.Down, false}, {"upload into a sandbox", faultproxy.Up, true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ws, _ := harness.Places(t)
			from, to := t.TempDir(), ws+"/to"
			harness.Must(t, os.Mkdir(to, 0o755))
			url, env := open, []string(nil)
			if tt.confined {
				harness.NeedSandbox(t)
				tokens := filepath.Join(t.TempDir(), "tokens.json")
				env = []string{"CODEX_EXEC_SERVER_CONNECTION_TOKEN=" + newToken(t, tokens, "--role", "run", "--cwd", ws)}
				_, url = harness.Server(t, "--listen", "ws://127.0.0.1:0", "--ws-auth", "capability-token", "--ws-tokens", tokens)
			}
			harness.Must(t, os.WriteFile(from+"/f", data, 0o644))
			args := []string{from + "/f", ":" + to + "/f"}
			if tt.direction == faultproxy.Down {
				args = []string{":" + from + "/f", to + "/f"}
			}
			cut := func(after int64) faultproxy.Conn {
				return faultproxy.Conn{Faults: []faultproxy.Fault{{Kind: faultproxy.Reset, Dir: tt.direction, After: after}}}
			}
			proxy, err := faultproxy.New(t.Context(), strings.TrimPrefix(url, "ws://"), faultproxy.Plan{Conns: []faultproxy.Conn{cut(5 << 20), cut(20 << 20)}})
			harness.Must(t, err)
			home, _ := harness.HomeDirectory(t, nil)
			_, errs, code := harness.RunWith(t, env, home, "", append([]string{"remote", "cp", "-q", "--url", "ws://" + proxy.Addr()}, args...)...)
			stats := proxy.Stats()
			proxy.Close()
			// The file has 32 MiB as text. The blocks on the way are lost with each connection. A copy
			// that begins again takes 57 MiB.
			if moved := max(stats.Up, stats.Down); moved > 48<<20 {
				t.Errorf("got %d bytes for the copy of %d, want at most 48 MiB", moved, len(data))
			}
			got, err := os.ReadFile(to + "/f")
			if code != 0 || stats.Faults != 2 || err != nil || !bytes.Equal(got, data) {
				t.Errorf("got exit code %d, %q, %d cuts, %d bytes, error %v; want 0, 2 cuts and the file", code, errs, stats.Faults, len(got), err)
			}
			if names, err := os.ReadDir(to); err != nil || len(names) != 1 {
				t.Errorf("got files %v, error %v; want only f", names, err)
			}
		})
	}
}
