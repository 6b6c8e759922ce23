package rendezvous

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// registering is a State in which a registration takes a while.
type registering struct {
	State
	begun, goOn chan struct{}
}

func (s *registering) Register(ctx context.Context, reg Registration) error {
	close(s.begun)
	<-s.goOn
	return s.State.Register(ctx, reg)
}

// callRegister registers an environment without a network.
func callRegister(s *Server, token string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(http.MethodPost, "/cloud/environment/env/register",
		strings.NewReader(`{"security_profile":"noise_hybrid_ik_v1","executor_public_key":`+keyText(identity())+`}`))
	r.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w
}

// TestShutdownGivesTheStateAway: after Shutdown another process may use the file. So every call
// that writes the file must have ended, and no new call may begin.
func TestShutdownGivesTheStateAway(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	path := filepath.Join(t.TempDir(), "state.json")
	tokens := newTokens(t)
	token, _ := newToken(t, tokens, RoleBoth, "*")
	s, err := New(t.Context(), Options{Tokens: tokens, StateFile: path})
	if err != nil {
		t.Fatal(err)
	}
	slow := &registering{State: s.state, begun: make(chan struct{}), goOn: make(chan struct{})}
	s.state = slow
	var calling sync.WaitGroup
	calling.Go(func() {
		if w := callRegister(s, token); w.Code != http.StatusOK {
			t.Errorf("the call that had begun: %d %s", w.Code, w.Body)
		}
	})
	<-slow.begun
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if s.Shutdown(short) == nil {
		t.Error("it did not wait for a call")
	}
	close(slow.goOn)
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	calling.Wait()
	saved, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if w := callRegister(s, token); w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), `"shutting_down"`) {
		t.Errorf("a call that comes afterwards: %d %s", w.Code, w.Body)
	}
	if now, err := os.ReadFile(path); err != nil || string(now) != string(saved) {
		t.Errorf("the file was written afterwards: %v", err)
	}
}
