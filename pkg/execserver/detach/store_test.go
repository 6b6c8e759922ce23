package detach

import (
	"encoding/json"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/host/outputlog"
)

// testRecord returns the record of a process without a keeper.
func testRecord(owner, name string) Record {
	return Record{
		Format: keeperFormat, Owner: owner, ProcessID: execproto.DetachedPrefix + name, StartID: "s", Argv: []string{"true"}, Cwd: "file:///",
		Secret: newSecret(), Retain: Retain{Bytes: outputlog.MinBytes, Seconds: 60, WhenFull: "dropOldest"},
	}
}

// options returns the options of a store whose directory does not exist yet.
func options(t *testing.T) Options {
	return Options{
		Dir: filepath.Join(t.TempDir(), "retain"), Max: 3, Bytes: 4 * outputlog.MinBytes, Events: new(observe.Events), Log: slog.New(slog.DiscardHandler),
		HasWhole: func(owner string) bool { return !strings.HasPrefix(owner, "token capped") },
	}
}

// newStore returns a store without processes.
func newStore(t *testing.T) *Store {
	t.Helper()
	d := NewStore(options(t))
	t.Cleanup(d.Close)
	return d
}

// reserve creates the directory of a process, as Start does before it starts the keeper.
func reserve(t *testing.T, d *Store, record Record) string {
	t.Helper()
	_, lock, err := d.reserve(record)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = lock.Close() })
	return filepath.Join(d.Dir, directoryName(record.Owner, record.ProcessID))
}

// TestRemoveAfterClose: a server ends while it starts a process, and the process is then
// removed. The files must be removed, and the server must not fail.
func TestRemoveAfterClose(t *testing.T) {
	d := newStore(t)
	k, lock, err := d.reserve(testRecord("token A", "build"))
	if err != nil {
		t.Fatal(err)
	}
	defer lock.Close()
	d.Close()
	if err := d.remove(k); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(d.Dir); err != nil || len(left) > 0 {
		t.Errorf("got left %v, error %v; want no error, len(left) at most 0", left, err)
	}
}

// TestRetainedOutputIsDivided: one process of an owner asks to retain as much as all processes
// may. The owner gets only its share, so that other owners can still start processes.
func TestRetainedOutputIsDivided(t *testing.T) {
	const all = 4 * outputlog.MinBytes // the Bytes of options
	for _, tt := range []struct {
		name   string
		owners []string
		asks   []int64
		fits   []bool
	}{
		{"an owner with a share gets half", []string{"token capped A", "token capped A"}, []int64{all, all / 2}, []bool{false, true}},
		{"the next one gets half of the rest", []string{"token capped A", "token capped B", "token capped B"}, []int64{all / 2, all / 2, all / 4}, []bool{true, false, true}},
		{"an owner without a share gets what is left", []string{"token capped A", "user 1000"}, []int64{all / 2, all / 2}, []bool{true, true}},
	} {
		d := newStore(t)
		for i, owner := range tt.owners {
			record := testRecord(owner, strconv.Itoa(i))
			record.Retain.Bytes = tt.asks[i]
			_, lock, err := d.reserve(record)
			if err == nil {
				t.Cleanup(func() { _ = lock.Close() })
			}
			if at, limit := errors.AsType[*observe.LimitError](err); (err == nil) != tt.fits[i] || limit && at.Limit != observe.LimitDetached {
				t.Errorf("%s: %s asks for %d: got error %v; want that it fits: %v", tt.name, owner, tt.asks[i], err, tt.fits[i])
			}
		}
	}
}

// TestDetachedOwners: a process is visible only to its owner, and a client without a name
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
		if got := d.All(owner); len(got) != want {
			t.Errorf("%s sees %d processes, want %d", owner, len(got), want)
		}
		k, err := d.Find(owner, execproto.DetachedPrefix+"build")
		if found := err == nil && k.Record.Owner == owner; found != (want > 0) {
			t.Errorf("%s: got error %v, want found %v", owner, err, want > 0)
		}
	}
	if _, err := d.Find("token B", execproto.DetachedPrefix+"other"); err == nil || !strings.Contains(err.Error(), "unknown process") {
		t.Errorf("another owner's process: %v", err)
	}
}

// TestDetachedLimits reserves as many as permitted, and one more.
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

// TestDetachedDirectories changes the files in a server's directory: the server follows no
// link, and uses no file that another user could have put there.
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
		"the record is another's":          func(_, dir string) { rewrite(t, dir, func(r *Record) { r.Owner = "else" }) },
		"the record is of another format":  func(_, dir string) { rewrite(t, dir, func(r *Record) { r.Format++ }) },
		"the record is not JSON":           func(_, dir string) { must(os.WriteFile(dir+"/record.json", []byte("{"), 0o600)) },
		"the record is larger than it may": func(_, dir string) { must(os.Truncate(dir+"/record.json", maxRecord+1)) },
	} {
		before := newStore(t)
		record := testRecord("me", "p")
		dir := reserve(t, before, record)
		d := NewStore(before.Options)
		t.Cleanup(d.Close)
		if got := d.All("me"); len(got) != 1 {
			t.Fatalf("%s: %d processes before", name, len(got))
		}
		d.Close()
		change(d.Dir, dir)
		if got := d.All("me"); len(got) != 0 {
			t.Errorf("%s: it is listed", name)
		}
		if k, err := d.Find("me", record.ProcessID); err == nil {
			t.Errorf("%s: it is found: %+v", name, k.Record)
		}
	}
}

// rewrite changes a record.
func rewrite(t *testing.T, dir string, change func(*Record)) {
	t.Helper()
	text, err := os.ReadFile(dir + "/record.json")
	if err != nil {
		t.Fatal(err)
	}
	var r Record
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

// TestDetachedHandles tests valid and invalid names of processes, including the shortest, the
// longest, and names just beyond.
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
			t.Errorf("%q: got %v, want %v", id, got, want)
		}
	}
}

// FuzzRecord parses any bytes as a record.
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

// TestTunnelsToDetachedAndCeilings: a client with ceilings cannot reach a detached process of
// its principal that was started under other ceilings, because that process may do more.
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
		p, err := d.Find("me", execproto.DetachedPrefix+tt.process)
		if err != nil {
			t.Fatal(err)
		}
		// No keeper answers here.
		conn, err := p.Dial(t.Context(), tt.own, "localhost", 1, "")
		if conn != nil || err == nil || errors.Is(err, ErrOtherCeiling) != tt.denied {
			t.Errorf("%s for %+v: got the error %v, want one of the ceiling: %v", tt.process, tt.own, err, tt.denied)
		}
	}
}

// TestLimitsHaveNames: the error of a limit contains the limit's name in metrics.
func TestLimitsHaveNames(t *testing.T) {
	d := newStore(t)
	for i := range d.Max {
		reserve(t, d, testRecord("one", strconv.Itoa(i)))
	}
	_, _, err := d.reserve(testRecord("one", "more"))
	if at, ok := errors.AsType[*observe.LimitError](err); !ok || at.Limit != observe.LimitDetached {
		t.Errorf("got the error %v, want one of the limit %s", err, observe.LimitDetached)
	}
}
