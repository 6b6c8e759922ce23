package execserver

import (
	"testing"

	"codex.internal/pkg/execproto"
)

// watchMissing sends fs/watchMissing and returns whether the server watches.
func (p *peer) watchMissing(id uint64, path string) bool {
	p.t.Helper()
	var r struct{ Watching bool }
	p.call(execproto.MethodFSWatchMissing, object{"watchId": id, "missing": []string{path}}, &r)
	return r.Watching
}

func TestWatchesOfAConnection(t *testing.T) {
	_, url := newTestServer(t, Options{}) // newTestServer checks that no goroutine is left
	dir := t.TempDir()
	p, _ := hello(t, url)
	for _, c := range []struct {
		id   uint64
		name string
		want bool
	}{
		{0, "first", true},
		{0, "again", false},
		{7, "old", true},
		{6, "lower", false},
		{8, "new", true},
	} {
		if got := p.watchMissing(c.id, uri(dir, c.name)); got != c.want {
			t.Errorf("watch %d of %s: got %v, want %v", c.id, c.name, got, c.want)
		}
	}
	for _, name := range []string{"first", "old", "lower", "new"} {
		mustWrite(t, dir+"/"+name, nil)
	}
	told := p.wait(func(m message) bool { return m.Method == execproto.NotifyMissingChanged })
	if want := `{"watchId":8}`; string(told.Params) != want {
		t.Errorf("got %s, want %s", told.Params, want)
	}
	if p.watchMissing(8, uri(dir, "later")) {
		t.Error("the id of a watch that has ended can be used again")
	}
	if !p.watchMissing(9, uri(dir, "later")) {
		t.Error("no watch after one that has ended")
	}
	q, _ := hello(t, url)
	if !q.watchMissing(1, uri(dir, "other")) {
		t.Error("another connection's ids do not begin anew")
	}
}

func TestRefusedWatchEndsTheOneBefore(t *testing.T) {
	_, url := newTestServer(t, Options{})
	dir := t.TempDir()
	p, _ := hello(t, url)
	if !p.watchMissing(1, uri(dir, "a")) || p.watchMissing(2, uri(dir, "")) || !p.watchMissing(3, uri(dir, "b")) {
		t.Error("unexpected answers")
	}
	mustWrite(t, dir+"/a", nil)
	mustWrite(t, dir+"/b", nil)
	told := p.wait(func(m message) bool { return m.Method == execproto.NotifyMissingChanged })
	if want := `{"watchId":3}`; string(told.Params) != want {
		t.Errorf("got %s, want %s", told.Params, want)
	}
}
