package remote

import (
	"io"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/pkg/fileop/archive"
)

// running is the error function of queues whose tasks do not fail.
func running() error { return nil }

// TestQueue runs a tree of tasks once each. After an error no task runs.
func TestQueue(t *testing.T) {
	var failed error
	q := newQueue(func() error { return failed })
	var tasks atomic.Int32
	var fill func(depth int)
	fill = func(depth int) {
		for range 5 {
			q.add(func() {
				tasks.Add(1)
				if depth > 0 {
					fill(depth - 1)
				}
			})
		}
	}
	fill(3)
	q.run()
	if got, want := int(tasks.Load()), 5+25+125+625; got != want {
		t.Errorf("got %d tasks, want %d", got, want)
	}
	failed = io.ErrUnexpectedEOF
	q.add(func() { t.Error("a task ran after an error") })
	q.run()
}

// TestQueueRunsTasksTogether: copiesInFlight tasks wait for each other. They end only if all of
// them run at the same time. No further task may run.
func TestQueueRunsTasksTogether(t *testing.T) {
	q := newQueue(running)
	var together sync.WaitGroup
	together.Add(copiesInFlight)
	var now, most, started atomic.Int32
	for range 3 * copiesInFlight {
		q.add(func() {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			if started.Add(1) <= copiesInFlight {
				together.Done()
			}
			together.Wait()
			now.Add(-1)
		})
	}
	q.run()
	if n := most.Load(); n != copiesInFlight {
		t.Errorf("got %d tasks at a time, want %d", n, copiesInFlight)
	}
}

func TestExcludes(t *testing.T) {
	exclude, err := archive.Excluder([]string{"node_modules", "*.o", "a/b", "dir/"})
	if err != nil {
		t.Fatal(err)
	}
	o := copyOptions{exclude: exclude}
	for below, want := range map[string]bool{
		"node_modules": true, "x/node_modules": true, "node_modules/x": true, "x.o": true, "a/x.o": true, "a/b": true, "x/a/b": false, "b": false, "dir": true, "a": false,
	} {
		if got := o.leavesOut(below, false); got != want {
			t.Errorf("%s: got %v, want %v", below, got, want)
		}
	}
}
