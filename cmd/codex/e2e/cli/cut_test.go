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

// TestFilesGoOnAfterCuts: after the connection is reset, the upload of one file begins again, and a
// download goes on behind what has arrived.
func TestFilesGoOnAfterCuts(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	_, url := harness.Server(t)
	dir := t.TempDir()
	data := make([]byte, 24<<20)
	for i := range data {
		data[i] = byte(i >> 16)
	}
	harness.Must(t, os.WriteFile(dir+"/f", data, 0o644))
	for direction, args := range map[faultproxy.Direction][]string{
		faultproxy.Up: {dir + "/f", ":" + dir + "/up"}, faultproxy.Down: {":" + dir + "/f", dir + "/down"},
	} {
		cut := func(after int64) faultproxy.Conn {
			return faultproxy.Conn{Faults: []faultproxy.Fault{{Kind: faultproxy.Reset, Dir: direction, After: after}}}
		}
		proxy, err := faultproxy.New(t.Context(), strings.TrimPrefix(url, "ws://"), faultproxy.Plan{Conns: []faultproxy.Conn{cut(5 << 20), cut(20 << 20)}})
		harness.Must(t, err)
		_, errs, code := harness.Run(t, "", append([]string{"remote", "cp", "-q", "--url", "ws://" + proxy.Addr()}, args...)...)
		stats := proxy.Stats()
		faults := stats.Faults
		proxy.Close()
		// The file has 32 MiB as text. The blocks on the way are lost with each connection. A copy
		// that begins again takes 57 MiB.
		if direction == faultproxy.Down && stats.Down > 48<<20 {
			t.Errorf("got %d bytes for the download of %d, want at most 48 MiB", stats.Down, len(data))
		}
		got, err := os.ReadFile(strings.TrimPrefix(args[1], ":"))
		if code != 0 || faults != 2 || err != nil || !bytes.Equal(got, data) {
			t.Errorf("%q: got exit code %d, %q, %d cuts, %d bytes, error %v; want 0, 2 cuts and the file", args, code, errs, faults, len(got), err)
		}
	}
}
