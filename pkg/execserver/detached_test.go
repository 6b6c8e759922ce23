package execserver

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/tunnels"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/outputlog"
	"codex.internal/pkg/wire/websocket"
)

// testRecord is the record of a process that no keeper has.
func testRecord(owner, name string) keeperRecord {
	return keeperRecord{
		Format: keeperFormat, Owner: owner, ProcessID: execproto.DetachedPrefix + name, StartID: "s", Argv: []string{"true"}, Cwd: "file:///",
		Secret: newSecret(), Retain: retainRecord{Bytes: outputlog.MinBytes, Seconds: 60, WhenFull: "dropOldest"},
	}
}

// newStore returns a server over a directory for detached processes.
func newStore(t *testing.T) *detachedStore {
	t.Helper()
	srv := &Server{log: slog.New(slog.DiscardHandler), opts: Options{MaxDetached: 3, RetainBytes: 4 * outputlog.MinBytes}.withDefaults()}
	d := &detachedStore{srv: srv, path: filepath.Join(t.TempDir(), "retain"), log: srv.log, open: make(map[string]*kept)}
	srv.detached = d
	t.Cleanup(d.close)
	return d
}

// reserve makes the directory of a process, as before the start of its keeper.
func reserve(t *testing.T, d *detachedStore, record keeperRecord) string {
	t.Helper()
	_, lock, err := d.reserve(record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return filepath.Join(d.path, directoryName(record.Owner, record.ProcessID))
}

// TestRemoveAfterClose: a server ends while a process is being started, which is then removed: what was made for
// it is gone, and the server does not fail.
func TestRemoveAfterClose(t *testing.T) {
	d := newStore(t)
	k, lock, err := d.reserve(testRecord("token A", "build"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	d.close()
	if err := d.remove(k); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(d.path); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}

// ownedTransport is a transport of a kind of client.
type ownedTransport struct {
	websocket.Transport
	peer string
}

func (o ownedTransport) Peer() string { return o.peer }

// TestDetachedOwners: a process is visible to its owner alone, and a client without a name
// owns none.
func TestDetachedOwners(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	d := newStore(t)
	reserve(t, d, testRecord("token A", "build"))
	reserve(t, d, testRecord("token B", "build"))
	reserve(t, d, testRecord("token A", "other"))
	for owner, want := range map[string]int{"token A": 2, "token B": 1, "token C": 0} {
		if got := d.all(owner); len(got) != want {
			t.Errorf("%s sees %d processes, want %d", owner, len(got), want)
		}
		k, err := d.find(owner, execproto.DetachedPrefix+"build")
		if found := err == nil && k.record.Owner == owner; found != (want > 0) {
			t.Errorf("%s: %v", owner, err)
		}
	}
	if _, err := d.find("token B", execproto.DetachedPrefix+"other"); err == nil || !strings.Contains(err.Error(), "unknown process") {
		t.Errorf("another owner's process: %v", err)
	}
	for _, tt := range []struct {
		transport websocket.Transport
		principal string
		want      string
	}{
		{ownedTransport{peer: "stdio"}, "", userPrincipal(os.Geteuid())},
		{ownedTransport{peer: "unix"}, "user 7", "user 7"},
		{ownedTransport{peer: "1.2.3.4:5"}, "capability-token 12", "capability-token 12"},
		{ownedTransport{peer: "1.2.3.4:5"}, anybody, ""},
		{ownedTransport{peer: "pipe"}, "", ""},
		{ownedTransport{peer: "relay stream 5"}, "harness 12", "harness 12"},
	} {
		c := &conn{srv: d.srv, t: tt.transport, principal: tt.principal}
		if got, err := c.ownerOf(); got != tt.want || (err == nil) != (tt.want != "") {
			t.Errorf("%+v %q: %q, %v", tt.transport, tt.principal, got, err)
		}
	}
}

// TestDetachedLimits reserves as much as there may be, and one more.
func TestDetachedLimits(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	d := newStore(t)
	for _, name := range []string{"a", "b", "c"} {
		reserve(t, d, testRecord("one", name))
	}
	if _, _, err := d.reserve(testRecord("one", "d")); err == nil || !strings.Contains(err.Error(), "--max-detached") {
		t.Errorf("a fourth process of an owner: %v", err)
	}
	reserve(t, d, testRecord("two", "a"))
	if _, _, err := d.reserve(testRecord("two", "b")); err == nil || !strings.Contains(err.Error(), "--retain-bytes") {
		t.Errorf("more bytes than there may be: %v", err)
	}
}

// TestDetachedDirectories changes what a server finds in its directory: it follows no link,
// and uses nothing that another user could have put there.
func TestDetachedDirectories(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	for name, change := range map[string]func(base, dir string){
		"the base is a link":              func(base, _ string) { must(os.Rename(base, base+".moved")); must(os.Symlink(base+".moved", base)) },
		"the base is open to others":      func(base, _ string) { must(os.Chmod(base, 0o755)) },
		"the directory is a link":         func(_, dir string) { must(os.Rename(dir, dir+".moved")); must(os.Symlink(dir+".moved", dir)) },
		"the directory is open to others": func(_, dir string) { must(os.Chmod(dir, 0o770)) },
		"the directory is a file":         func(_, dir string) { must(os.RemoveAll(dir)); must(os.WriteFile(dir, nil, 0o600)) },
		"the directory has another name":  func(_, dir string) { must(os.Rename(dir, dir[:len(dir)-1]+"x")) },
		"the record is a link": func(_, dir string) {
			must(os.Rename(dir+"/record.json", dir+"/r"))
			must(os.Symlink("r", dir+"/record.json"))
		},
		"the record is a FIFO": func(_, dir string) {
			must(os.Remove(dir + "/record.json"))
			must(syscall.Mkfifo(dir+"/record.json", 0o600))
		},
		"the record is open to others":     func(_, dir string) { must(os.Chmod(dir+"/record.json", 0o644)) },
		"the record is another's":          func(_, dir string) { rewrite(t, dir, func(r *keeperRecord) { r.Owner = "else" }) },
		"the record is of another format":  func(_, dir string) { rewrite(t, dir, func(r *keeperRecord) { r.Format++ }) },
		"the record is not JSON":           func(_, dir string) { must(os.WriteFile(dir+"/record.json", []byte("{"), 0o600)) },
		"the record is larger than it may": func(_, dir string) { must(os.Truncate(dir+"/record.json", maxRecord+1)) },
	} {
		before := newStore(t)
		record := testRecord("me", "p")
		dir := reserve(t, before, record)
		d := &detachedStore{srv: before.srv, path: before.path, log: before.log, open: make(map[string]*kept)}
		t.Cleanup(d.close)
		if got := d.all("me"); len(got) != 1 {
			t.Fatalf("%s: %d processes before", name, len(got))
		}
		d.close()
		change(d.path, dir)
		if got := d.all("me"); len(got) != 0 {
			t.Errorf("%s: it is listed", name)
		}
		if k, err := d.find("me", record.ProcessID); err == nil {
			t.Errorf("%s: it is found: %+v", name, k.record)
		}
	}
}

// rewrite changes a record.
func rewrite(t *testing.T, dir string, change func(*keeperRecord)) {
	t.Helper()
	text, err := os.ReadFile(dir + "/record.json")
	if err != nil {
		t.Fatal(err)
	}
	var r keeperRecord
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	change(&r)
	text, err = json.Marshal(r)
	if err == nil {
		err = os.WriteFile(dir+"/record.json", text, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestKeeperRefuses: a keeper asks for the secret of its process, and starts nothing else.
func TestKeeperRefuses(t *testing.T) {
	srv, err := New(Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = srv.Shutdown(t.Context()) })
	record := testRecord("me", "p")
	srv.keeper = &keeperState{record: record, over: make(chan struct{}), left: make(chan struct{}, 1)}
	if srv.keeper.session, err = srv.newSession(&conn{principal: "me"}); err != nil {
		t.Fatal(err)
	}
	srv.keeper.session.conn = nil
	path := filepath.Join(t.TempDir(), "socket")
	l, err := websocket.ListenUnix(t.Context(), path)
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(t.Context(), l)
	}()
	t.Cleanup(func() { _ = srv.Shutdown(t.Context()); <-served })
	for _, secret := range []string{"", newSecret(), record.Secret[:10]} {
		if c, err := execclient.DialWebSocket(t.Context(), "unix://"+path, execclient.Options{BearerToken: secret, RecoveryTimeout: -1}); err == nil {
			_ = c.Close()
			t.Errorf("a client with the secret %q is admitted", secret)
		}
	}
	c, err := execclient.DialWebSocket(t.Context(), "unix://"+path, execclient.Options{BearerToken: record.Secret, RecoveryTimeout: -1})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, params := range []execproto.StartParams{
		{ProcessID: "p"},
		{ProcessID: record.ProcessID},
		{ProcessID: record.ProcessID, Detach: &execproto.Detach{StartID: "other"}},
		{ProcessID: record.ProcessID + "x", Detach: &execproto.Detach{StartID: "s"}},
	} {
		params.Argv, params.Cwd, params.Env = []string{"true"}, "file:///", map[string]string{}
		err := c.Call(t.Context(), execproto.MethodProcessStart, &params, nil)
		var refused *execclient.ServerError
		if !errors.As(err, &refused) || refused.Code != execproto.CodeInvalidRequest {
			t.Errorf("%+v: %v", params, err)
		}
	}
}

// TestDetachedHandles: what may be the name of a process, at the limits and past them.
func TestDetachedHandles(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	for id, want := range map[string]bool{
		"detached/a": true, "detached/A-b_c.9": true, "detached/" + strings.Repeat("x", 64): true,
		"detached/": false, "a": false, "detached/.a": false, "detached/a/b": false, "detached/a b": false, "detached/é": false,
		"detached/-a": false, "detached/" + strings.Repeat("x", 65): false, "detached/a\x00": false,
	} {
		if got := checkHandle(id) == nil; got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}

// FuzzRecord reads any bytes as a record.
func FuzzRecord(f *testing.F) {
	text, err := json.Marshal(testRecord("me", "p"))
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte(`{"format":1}`))
	f.Add([]byte(`{"format":1,"owner":"o","processId":"detached/..","secret":"` + strings.Repeat("0", 64) + `"}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		r, err := parseRecord(text)
		if err == nil && (r.Owner == "" || checkHandle(r.ProcessID) != nil || r.Format != keeperFormat) {
			t.Fatalf("accepted %+v", r)
		}
	})
}

// TestTunnelsToDetachedAndCeilings: a client with ceilings reaches no detached process of its
// principal that was started under others, as that may do more.
func TestTunnelsToDetachedAndCeilings(t *testing.T) {
	d := newStore(t)
	confined, other := wsauth.Ceiling{Dir: "/a", MaxSandbox: wsauth.SandboxNone}, wsauth.Ceiling{Dir: "/b", MaxSandbox: wsauth.SandboxNone}
	for name, ceiling := range map[string]wsauth.Ceiling{"free": {}, "confined": confined} {
		record := testRecord("me", name)
		record.Ceiling = ceiling
		reserve(t, d, record)
	}
	for _, tt := range []struct {
		process string
		own     wsauth.Ceiling
		denied  bool
	}{
		{"free", wsauth.Ceiling{}, false}, {"confined", wsauth.Ceiling{}, false}, {"confined", confined, false},
		{"free", confined, true}, {"confined", other, true},
	} {
		into := detachedTarget{d.srv, "me", execproto.DetachedPrefix + tt.process, tt.own}
		conn, err := into.Dial(t.Context(), tunnels.Target{Host: "localhost", Port: 1}) // there is no keeper
		if conn != nil || err == nil || strings.Contains(err.Error(), "other ceilings") != tt.denied {
			t.Errorf("%s for %+v: %v", tt.process, tt.own, err)
		}
	}
}
