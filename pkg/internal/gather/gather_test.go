package gather

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// buffer is a log. A timer writes into it, in a goroutine of its own.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// take returns what was written since the last call.
func (b *buffer) take() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	defer b.text.Reset()
	return b.text.String()
}

// TestFlood: of many refusals, the first of each reason is logged, and then one record for each minute names the worst address and token.
func TestFlood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out buffer
		h := New(slog.NewTextHandler(&out, &slog.HandlerOptions{ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			if a.Key == slog.TimeKey {
				return slog.Attr{}
			}
			return a
		}}), map[string]Rule{"refused": {Key: "reason", Sources: []string{"peer", "token"}}})
		log := slog.New(h).With("server", 1)
		lines := func() []string {
			synctest.Wait()
			text := strings.TrimSpace(out.take())
			if text == "" {
				return nil
			}
			return strings.Split(text, "\n")
		}
		check := func(when string, want ...string) {
			t.Helper()
			if got := lines(); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("%s:\ngot  %q\nwant %q", when, got, want)
			}
		}
		for i := range 1000 {
			of := log
			if i%4 == 0 {
				of = log.With("token", []string{"a", "b"}[i/4%2])
			}
			of.Warn("refused", "peer", fmt.Sprintf("10.0.0.%d:%d", min(i%10, 5), i), "reason", "wrong token")
		}
		log.Warn("refused", "peer", "10.0.0.9:1", "reason", "no token")
		log.Info("other")
		log.Info("other")
		check("at once", `level=WARN msg=refused server=1 token=a peer=10.0.0.0:0 reason="wrong token"`,
			`level=WARN msg=refused server=1 peer=10.0.0.9:1 reason="no token"`, "level=INFO msg=other server=1", "level=INFO msg=other server=1")
		time.Sleep(window + time.Second)
		check("after a minute", `level=WARN msg="refused, again" count=999 reason="wrong token" worst_peer=10.0.0.5 worst_peer_count=500 worst_token=b worst_token_count=125`)
		log.Warn("refused", "peer", "10.0.0.9:1", "reason", "wrong token")
		log.Warn("refused", "peer", "10.0.0.9:1", "reason", "no token")
		check("in the next minute", `level=WARN msg=refused server=1 peer=10.0.0.9:1 reason="no token"`)
		h.Close()
		check("at the end", `level=WARN msg="refused, again" count=1 reason="wrong token" worst_peer=10.0.0.9 worst_peer_count=1`)
		log.Warn("refused", "peer", "10.0.0.9:1", "reason", "no token")
		check("after the end", `level=WARN msg=refused server=1 peer=10.0.0.9:1 reason="no token"`)
		time.Sleep(2 * window)
		check("later")
	})
}

// TestBounds: reasons and addresses that a client chooses take bounded memory.
func TestBounds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New(slog.NewTextHandler(&bytes.Buffer{}, nil), map[string]Rule{"refused": {Key: "reason", Sources: []string{"peer", "token"}}})
		for i := range 5000 {
			slog.New(s).Warn("refused", "peer", i, "reason", i)
		}
		if n := len(s.shared.open); n > maxKeys+1 {
			t.Errorf("%d kinds are counted separately, want at most %d", n, maxKeys+1)
		}
		if n := len(s.shared.open[kind{"refused", ""}].sources["peer"]); n != maxSources {
			t.Errorf("%d sources are counted separately, want %d", n, maxSources)
		}
		s.Close()
	})
}
