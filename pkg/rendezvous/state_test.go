package rendezvous

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
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
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got info %v, error %v; want no error, mode 0600", info, err)
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

// A file in JSON, of an earlier version, is replaced by a database with the same content.
func TestStateInJSON(t *testing.T) {
	path := filepath.Join(t.TempDir(), "state.json")
	reg := &Registration{ID: "r", Environment: "env", Key: identity(), Token: "0123456789ab", Expires: time.Now().Add(time.Hour)}
	key := newSigner()
	old, err := json.Marshal(stateDocument{Version: stateVersion, URLKey: key.key[:], Registrations: []*Registration{reg}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"JSON", "the database"} {
		s, err := openState(t.Context(), path)
		if err != nil {
			t.Fatalf("%s: got error %v, want none", name, err)
		}
		if s.signer.key != key.key || len(s.registrations) != 1 || s.registrations[0].ID != "r" || s.registrations[0].Key != reg.Key {
			t.Errorf("%s: got another key, or registrations %v; want the key and the registration of the file", name, s.registrations)
		}
		if err := s.close(); err != nil {
			t.Fatal(err)
		}
	}
	if left, _ := filepath.Glob(filepath.Dir(path) + "/.*"); len(left) > 1 { // the lock
		t.Errorf("got %q beside the file, want its lock alone", left)
	}
}

// The cost of a registration does not depend on how many there are.
func TestStateWritesFewPages(t *testing.T) {
	s, err := openState(t.Context(), filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.db.NoSync = true // the test counts pages
	reg := Registration{Key: identity(), Token: "0123456789ab", Expires: time.Now().Add(time.Hour)}
	const most = 40
	for i := range 2000 {
		reg.ID = strconv.Itoa(i)
		reg.Environment = "env-" + reg.ID
		before := s.db.Stats()
		if err := s.change(&reg, nil); err != nil {
			t.Fatal(err)
		}
		after := s.db.Stats()
		if pages := after.TxStats.GetPageCount() - before.TxStats.GetPageCount(); pages > most {
			t.Fatalf("registration %d: got %d pages allocated, want at most %d", i, pages, most)
		}
	}
}

// A service that is killed has lost no registration that it has confirmed.
func TestStateOutlivesAKill(t *testing.T) {
	const variable = "CODEX_TEST_STATE"
	key := identity()
	reg := func(i int) Registration {
		return Registration{ID: strconv.Itoa(i), Environment: "env-" + strconv.Itoa(i), Key: key, Token: "0123456789ab", Expires: time.Now().Add(time.Hour)}
	}
	if path := os.Getenv(variable); path != "" {
		s, err := openState(t.Context(), path)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 2000 {
			r := reg(i)
			if err := s.change(&r, nil); err != nil {
				t.Fatal(err)
			}
			os.Stdout.WriteString("confirmed\n")
		}
		select {} // until it is killed
	}
	path := filepath.Join(t.TempDir(), "state")
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestStateOutlivesAKill$")
	cmd.Env = append(os.Environ(), variable+"="+path)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	confirmed := 0
	for lines := bufio.NewScanner(out); confirmed < 100 && lines.Scan(); {
		if lines.Text() == "confirmed" {
			confirmed++
		}
	}
	_ = cmd.Process.Kill()
	rest, _ := io.ReadAll(out)
	_ = cmd.Wait() // killed
	confirmed += strings.Count(string(rest), "confirmed\n")
	if confirmed < 100 {
		t.Fatalf("got %d registrations, want more than 100", confirmed)
	}
	s, err := openState(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if len(s.registrations) < confirmed {
		t.Errorf("got %d registrations after the kill, want the %d that were confirmed", len(s.registrations), confirmed)
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
