package remote

import (
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"codex.internal/pkg/fileop/archive"
)

// TestQueue runs a tree of tasks: all of them once, and each folder is finished after
// everything in it.
func TestQueue(t *testing.T) {
	q := newQueue()
	var mu sync.Mutex
	var finished []string
	tasks := 0
	var fill func(name string, above *folder, depth int)
	fill = func(name string, above *folder, depth int) {
		f := newFolder(q, above, func() {
			mu.Lock()
			defer mu.Unlock()
			finished = append(finished, name)
		})
		defer f.done()
		for i := range 5 {
			f.add(func() {
				mu.Lock()
				tasks++
				mu.Unlock()
				if depth > 0 {
					fill(fmt.Sprint(name, i), f, depth-1)
				}
			})
		}
	}
	fill("t", nil, 3)
	q.run()
	if tasks != 5+25+125+625 || len(finished) != 1+5+25+125 {
		t.Errorf("%d tasks, %d folders", tasks, len(finished))
	}
	for i, name := range finished {
		if above := name[:len(name)-1]; above != "" && slices.Index(finished, above) < i {
			t.Errorf("%s was finished before %s", above, name)
		}
	}
	q.stop()
	q.add(func() { t.Error("a task ran after stop") })
	q.run()
}

// TestQueueRunsTasksTogether: copiesInFlight tasks wait for each other, which ends only
// if all of them run, and no further one runs meanwhile.
func TestQueueRunsTasksTogether(t *testing.T) {
	q := newQueue()
	var together sync.WaitGroup
	together.Add(copiesInFlight)
	var running, most, started atomic.Int32
	for range 3 * copiesInFlight {
		q.add(func() {
			if n := running.Add(1); n > most.Load() {
				most.Store(n)
			}
			if started.Add(1) <= copiesInFlight {
				together.Done()
			}
			together.Wait()
			running.Add(-1)
		})
	}
	q.run()
	if n := most.Load(); n != copiesInFlight {
		t.Errorf("%d tasks ran together", n)
	}
}

func TestExcludes(t *testing.T) {
	exclude, err := archive.Excluder([]string{"node_modules", "*.o", "a/b", "dir/"})
	if err != nil {
		t.Fatal(err)
	}
	o := copyOptions{exclude: exclude}
	for below, want := range map[string]bool{
		"node_modules": true, "x/node_modules": true, "x.o": true, "a/x.o": true, "a/b": true, "x/a/b": false, "b": false, "dir": true, "a": false,
	} {
		if o.excludes(below) != want {
			t.Errorf("%s: %v", below, !want)
		}
	}
}
