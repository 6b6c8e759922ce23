package execclient

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/execproto"
)

// acceptWatch answers fs/watch and returns its params.
func (p *peer) acceptWatch() execproto.WatchParams {
	var params execproto.WatchParams
	p.answer(p.expect(execproto.MethodFSWatch, &params), execproto.Empty{})
	return params
}

func (p *peer) changed(id, seq uint64, names ...string) {
	n := execproto.Changed{WatchID: id, Seq: seq}
	for _, name := range names {
		n.Events = append(n.Events, execproto.WatchEvent{Path: "file:///d/" + name, Kind: execproto.WatchCreated})
	}
	p.out <- execproto.Notify(&n)(nil)
}

// TestLostChanges: lost changes are reported as an overflow.
func TestLostChanges(t *testing.T) {
	bubble(t, func(t *testing.T) {
		h := newHost(t)
		c, p := h.join(Options{}, execproto.MethodFSWatch)
		defer c.Close()
		var accepting sync.WaitGroup
		accepting.Go(func() { p.acceptWatch() })
		w, err := c.FS().Watch(t.Context(), "/d", WatchOptions{})
		must(t, err)
		accepting.Wait()
		expect := func(want string) {
			t.Helper()
			n, err := w.Next(t.Context())
			must(t, err)
			if got := fmt.Sprint(len(n.Events), n.Overflow); got != want {
				t.Errorf("told %s, want %s", got, want)
			}
		}
		p.changed(1, 1, "a", "b")
		expect("2 false")
		p.changed(1, 3, "c") // notification 2 is missing
		expect("1 true")
		p.changed(9, 1, "c") // there is no watch 9
		many := make([]string, maxWatchEvents/2+1)
		for i := range many {
			many[i] = "f"
		}
		p.changed(1, 4, many...)
		p.changed(1, 5, many...) // more than are kept
		time.Sleep(time.Second)
		expect(fmt.Sprint(len(many), true))

		time.Sleep(calmTime)
		p.cut()
		p = <-h.peers
		p.greet(execproto.MethodFSWatch)
		if params := p.acceptWatch(); params.WatchID != 2 || params.Path != "file:///d" {
			t.Errorf("watched again with %+v", params)
		}
		expect("0 true")
		p.changed(1, 6, "late") // a late message of the first connection
		p.changed(2, 1, "a")
		expect("1 false")
		accepting.Go(func() { p.answer(p.expectLater(execproto.MethodFSUnwatch), execproto.Empty{}) })
		must(t, w.Close())
		accepting.Wait()
	})
}

func TestAServerWithoutWatches(t *testing.T) {
	bubble(t, func(t *testing.T) {
		c, _ := newHost(t).join(Options{})
		defer c.Close()
		if _, err := c.FS().Watch(t.Context(), "/d", WatchOptions{}); err == nil || err.Error() != "watch /d: the server cannot watch files" {
			t.Error(err)
		}
	})
}
