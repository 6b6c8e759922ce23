package rendezvous

import (
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
)

// lockedBuffer is a buffer that several goroutines may write to.
type lockedBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// Executors with the same name are distinguished by their keys, because the same executor may
// register again.
func TestWarningOfReplacedExecutors(t *testing.T) {
	var log lockedBuffer
	s := start(t, Options{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))})
	another := func() {
		t.Helper()
		a := s.post(s.token, "/cloud/environment/env/register", `{"security_profile":"noise_hybrid_ik_v1","executor_public_key":`+keyText(makeKey())+`}`)
		if a.status != http.StatusOK {
			t.Fatalf("got %v, want a.status %v", a.body, http.StatusOK)
		}
	}
	another()
	another() // after one that was never connected
	s.executor("env")
	connected := s.register("env")
	s.dial(connected.URL)
	if text := log.String(); text != "" {
		t.Errorf("a warning of nobody: %s", text)
	}
	another()
	if text := log.String(); !strings.Contains(text, "registration="+connected.ExecutorRegistrationID) || strings.Contains(text, s.token) {
		t.Errorf("after one that is connected: %q", text)
	}
}
