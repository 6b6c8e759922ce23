package rendezvous

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/internal/atomicfile"
)

func TestState(t *testing.T) {
	path := filepath.Join(t.TempDir(), "new", "state.json")
	tokens := newTokens(t)
	ctx := context.Background()
	first, err := New(ctx, Options{Tokens: tokens, StateFile: path})
	if err != nil {
		t.Fatal(err)
	}
	_, token := newToken(t, tokens, RoleBoth, "*")
	reg := Registration{ID: "r", Environment: "env", Key: identity(), Token: token.ID, Expires: time.Now().Add(time.Hour)}
	if err := first.state.Register(ctx, reg); err != nil {
		t.Fatal(err)
	}
	query := (&ticket{end: endExecutor, environment: "env", registration: reg.ID, token: token.ID, expires: reg.Expires}).query(first.urls)
	short, cancel := context.WithTimeout(ctx, time.Millisecond)
	defer cancel()
	if _, err := New(short, Options{Tokens: tokens, StateFile: path}); !errors.Is(err, ErrLocked) {
		t.Errorf("a second service with the same file: %v", err)
	}
	if err := first.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	s := start(t, Options{Tokens: tokens, StateFile: path})
	if info, err := os.Stat(path); err != nil || atomicfile.OthersCanWrite(info) {
		t.Errorf("got info %v, error %v; want no error, not atomicfile.OthersCanWrite(info)", info, err)
	}
	// The executor reconnects with its old URL.
	s.dial("ws" + strings.TrimPrefix(s.url, "http") + relayPath + "?" + query)
	if con := s.connect("env", identity()); con.ExecutorRegistrationID != reg.ID || con.ExecutorPublicKey != identity() {
		t.Errorf("got %s; want con.ExecutorRegistrationID %v, con.ExecutorPublicKey identity()", con.body, reg.ID)
	}
}

func TestStateThatCannotBeUsed(t *testing.T) {
	for name, content := range map[string]string{
		"empty": "", "no key": `{"version":1,"url_key":"","registrations":[]}`, "version": `{"version":2}`, "more": `{"version":1,"x":1}`,
	} {
		path := filepath.Join(t.TempDir(), "state.json")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(context.Background(), Options{Tokens: newTokens(t), StateFile: path}); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got error %v, want an error with %q", name, err, path)
		}
		if now, err := os.ReadFile(path); err != nil || string(now) != content {
			t.Errorf("%s: it was overwritten", name)
		}
	}
}

// TestUnsavedRegistration: the state file cannot be written.
func TestUnsavedRegistration(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	s := start(t, Options{StateFile: filepath.Join(dir, "state.json")})
	former := s.register("env")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	a := s.post(s.token, "/cloud/environment/env/register", `{"security_profile":"noise_hybrid_ik_v1","executor_public_key":`+keyText(identity())+`}`)
	if a.status != 500 || a.Error.Code != "state_unavailable" || strings.Contains(a.body, dir) {
		t.Errorf(`got %s; want a.status 500, a.Error.Code "state_unavailable", a text without %q`, a.body, dir)
	}
	if reg, err := s.state.Newest(context.Background(), "env"); err != nil || reg.ID != former.ExecutorRegistrationID {
		t.Error("the former registration is lost")
	}
	if w := s.get("/readyz"); w.Code != 503 || !strings.Contains(w.Body.String(), "state") {
		t.Errorf(`got w.Code %d, w.Body %s; want w.Code 503, w.Body with "state"`, w.Code, w.Body)
	}
}

// FuzzDecodeState checks that an accepted state can be written and read again.
func FuzzDecodeState(f *testing.F) {
	reg := &Registration{ID: "r", Environment: "env", Key: identity(), Token: "0123456789ab", Expires: time.Unix(1_800_000_000, 0).UTC()}
	good, err := json.Marshal(stateDocument{Version: stateVersion, URLKey: make([]byte, 32), Registrations: []*Registration{reg}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(good)
	f.Add([]byte(`{"version":1,"url_key":"AAAA","registrations":[null]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		s, list, err := decodeState(data)
		if err != nil {
			return
		}
		again, err := json.Marshal(stateDocument{Version: stateVersion, URLKey: s.key[:], Registrations: list})
		if err != nil {
			t.Fatal(err)
		}
		if _, second, err := decodeState(again); err != nil || len(second) != len(list) {
			t.Fatalf("%d registrations, then %d: %v", len(list), len(second), err)
		}
	})
}
