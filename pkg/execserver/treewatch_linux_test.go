package execserver

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"codex.internal/pkg/execproto"
)

// The limits of the watches of a connection, and of the watches of all connections
// (docs/spec/wire.md §10).
const (
	watches      = 8
	watchesOfAll = 512
)

// changes returns the next fs/changed: one line for each event, with names relative to dir.
func (p *peer) changes(dir string) (execproto.Changed, string) {
	p.t.Helper()
	m := p.wait(func(m message) bool { return m.Method == execproto.NotifyFSChanged })
	n, err := execproto.Decode[execproto.Changed](m.Params)
	if err != nil {
		p.t.Fatal(err)
	}
	var lines []string
	for _, e := range n.Events {
		lines = append(lines, e.Kind+" "+strings.TrimPrefix(e.Path, "file://"+dir+"/"))
	}
	return n, strings.Join(lines, ", ")
}

func TestWatchTree(t *testing.T) {
	_, url := newTestServer(t, Options{}) // newTestServer checks that no goroutine is left
	dir := t.TempDir()
	p, _ := hello(t, url)
	p.call(execproto.MethodFSWatch, object{"watchId": 3, "path": uri(dir, ""), "recursive": true}, nil)
	mustWrite(t, dir+"/a b", nil)
	if n, got := p.changes(dir); got != "created a%20b" || n.WatchID != 3 || n.Seq != 1 {
		t.Errorf("told %+v", n)
	}
	must(t, os.MkdirAll(dir+"/x/y", 0o755))
	mustWrite(t, dir+"/x/y/z", nil)
	if n, got := p.changes(dir); got != "created x, created x/y, created x/y/z" || n.Seq != 2 {
		t.Errorf("told %+v", n)
	}
	p.call(execproto.MethodFSUnwatch, object{"watchId": 3}, nil)
	p.call(execproto.MethodFSUnwatch, object{"watchId": 3}, nil)
	mustWrite(t, dir+"/untold", nil)
	p.call(execproto.MethodFSWatch, object{"watchId": 3, "path": uri(dir, "x")}, nil)
	must(t, os.RemoveAll(dir+"/x/y"), os.Remove(dir+"/x"))
	n, _ := p.changes(dir)
	for n.Ended == "" {
		n, _ = p.changes(dir)
	}
	if want := "the directory " + dir + "/x was moved or removed"; n.Ended != want {
		t.Errorf("ended %q, want %q", n.Ended, want)
	}
	// The watch has ended by itself: its id is free, and its resources are released.
	p.call(execproto.MethodFSWatch, object{"watchId": 3, "path": uri(dir, "")}, nil)
	p.call(execproto.MethodFSUnwatch, object{"watchId": 3}, nil)
}

// TestEndedWatchIsFree: after a client has received the end of a watch, it may use the id
// again.
func TestEndedWatchIsFree(t *testing.T) {
	_, url := newTestServer(t, Options{})
	p, _ := hello(t, url)
	dir := t.TempDir()
	for range watchesOfAll + 1 {
		must(t, os.Mkdir(dir+"/x", 0o755))
		p.call(execproto.MethodFSWatch, object{"watchId": 3, "path": uri(dir, "x")}, nil)
		must(t, os.Remove(dir+"/x"))
		for ended := ""; ended == ""; {
			n, _ := p.changes(dir)
			ended = n.Ended
		}
	}
}

func TestWatchTreeRefusals(t *testing.T) {
	_, url := newTestServer(t, Options{})
	dir := t.TempDir()
	p, _ := hello(t, url)
	for i := range watches {
		p.call(execproto.MethodFSWatch, object{"watchId": i, "path": uri(dir, "")}, nil)
	}
	for _, c := range []struct {
		params object
		code   int
		text   string
	}{
		{object{"watchId": 0, "path": uri(dir, "")}, execproto.CodeInvalidRequest, "watch 0 already exists"},
		{object{"watchId": 99, "path": uri(dir, "")}, execproto.CodeInvalidRequest, fmt.Sprintf("at most %d watches may be open per connection", watches)},
		{object{"watchId": 99, "path": "relative"}, execproto.CodeInvalidParams, ""},
		{object{"path": uri(dir, "")}, execproto.CodeInvalidParams, "missing field `watchId`"},
	} {
		p.refuse(execproto.MethodFSWatch, c.params, c.code, c.text)
	}
	wantMetrics(t, url, `exec_server_limit_reached_total{limit="watches"} 1`)
	p.call(execproto.MethodFSUnwatch, object{"watchId": 0}, nil)
	for path, want := range map[string]string{
		uri(dir, "none"):    "No such file or directory (os error 2): " + dir + "/none",
		"file:///proc/self": "the file system does not report changes: /proc/self",
	} {
		code := execproto.CodeInvalidRequest
		if strings.HasPrefix(want, "No such") {
			code = execproto.CodeNotFound
		}
		p.refuse(execproto.MethodFSWatch, object{"watchId": 0, "path": path}, code, want)
	}
}

// TestWatchesOfAConnectionShareAnInstance: a user may have as few as 128 inotify instances.
func TestWatchesOfAConnectionShareAnInstance(t *testing.T) {
	_, url := newTestServer(t, Options{})
	dir := t.TempDir()
	p, _ := hello(t, url)
	if !p.watchMissing(1, uri(dir, "missing")) {
		t.Error("the missing path is not watched")
	}
	for i := range watches {
		p.call(execproto.MethodFSWatch, object{"watchId": i, "path": uri(dir, "")}, nil)
	}
	wantMetrics(t, url, `exec_server_limit_used{limit="watches"} 1`)
	for i := range watches {
		p.call(execproto.MethodFSUnwatch, object{"watchId": i}, nil)
	}
	mustWrite(t, dir+"/missing", nil)
	p.wait(func(m message) bool { return m.Method == execproto.NotifyMissingChanged })
	wantMetrics(t, url, `exec_server_limit_used{limit="watches"} 0`)
}

// TestEndedWatchesAreNotCounted: the number of concurrent watches is limited, but not the
// number of successive ones.
func TestEndedWatchesAreNotCounted(t *testing.T) {
	_, url := newTestServer(t, Options{})
	dir := t.TempDir()
	// The kernel takes milliseconds to end a watch, so several clients wait for it at the same time.
	const clients = 8
	for i := range clients {
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			t.Parallel()
			p, _ := hello(t, url)
			for range 2 * watchesOfAll / clients {
				p.call(execproto.MethodFSWatch, object{"watchId": 1, "path": uri(dir, "")}, nil)
				p.call(execproto.MethodFSUnwatch, object{"watchId": 1}, nil)
			}
		})
	}
}

func must(t testing.TB, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
