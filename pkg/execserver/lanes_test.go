package execserver

import (
	"fmt"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/share"
)

// gate is a job that says when it begins, and runs until the test opens it.
type gate struct {
	began, ended atomic.Bool
	open         chan struct{}
}

func (g *gate) job() job {
	g.open = make(chan struct{})
	return job{run: func() {
		g.began.Store(true)
		<-g.open
		g.ended.Store(true)
	}}
}

// submitGates submits n jobs and returns them.
func submitGates(t *testing.T, l *lanes, n int) []*gate {
	gates := make([]*gate, n)
	for i := range gates {
		gates[i] = &gate{}
		if !l.submit(t.Context(), laneOrdinary, gates[i].job()) {
			t.Fatal("a job was refused")
		}
	}
	synctest.Wait()
	return gates
}

// running returns how many of the jobs have begun and not ended.
func running(gates []*gate) (n int) {
	synctest.Wait()
	for _, g := range gates {
		if g.began.Load() && !g.ended.Load() {
			n++
		}
	}
	return n
}

// openAll ends all jobs.
func openAll(gates []*gate) {
	for _, g := range gates {
		if !g.ended.Load() {
			close(g.open)
		}
	}
}

// lanesWith returns lanes of a connection of its own principal, of which at most eight requests
// run at a time.
func lanesWith(t *testing.T, s *share.Shares, name string, flush func()) *lanes {
	return newLanes(t.Context(), 8, s.Open(name, false), flush)
}

// TestQuickRequestsRunOneAfterTheOther: only the first request of an idle connection does not
// count.
func TestQuickRequestsRunOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lanesWith(t, share.New(map[observe.Limit]int64{observe.LimitTurns: 4}), "a", func() {})
		gates := submitGates(t, l, 20)
		close(gates[0].open)
		for i, g := range gates[1:] {
			if got := running(gates); got != 1 || !g.began.Load() {
				t.Errorf("after %d requests %d run, the next one: %t; want only the next one", i, got, g.began.Load())
			}
			close(g.open)
		}
		l.wg.Wait()
	})
}

// TestSlowRequestsRunTogether: requests that wait for a slow disk do not wait for each other, up
// to the connection's limit. After quick requests, requests run one after the other again.
func TestSlowRequestsRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := share.New(map[observe.Limit]int64{observe.LimitTurns: 1})
		s.Unlimited(observe.LimitTurns)
		l := lanesWith(t, s, "a", func() {})
		gates := submitGates(t, l, 20)
		for i, want := range []int{2, 4, 8, 8, 8} {
			if got := running(gates); got != want {
				t.Errorf("after %d times quickTime %d requests run, want %d", i, got, want)
			}
			time.Sleep(quickTime)
		}
		openAll(gates)
		l.wg.Wait()
		gates = submitGates(t, l, 1)
		for range 20 {
			next := submitGates(t, l, 1)
			openAll(gates)
			gates = next
		}
		gates = append(gates, submitGates(t, l, 2)...)
		if got := running(gates); got != 1 {
			t.Errorf("after quick requests %d run together, want 1", got)
		}
		openAll(gates)
		l.wg.Wait()
	})
}

// TestStartsRunTogether: the start of a process waits for no other one, and for no quick request
// that came later.
func TestStartsRunTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := lanesWith(t, share.New(map[observe.Limit]int64{observe.LimitTurns: 1}), "a", func() {})
		gates := submitGates(t, l, 3) // the third is in the queue
		for range 4 {
			g := &gate{}
			j := g.job()
			j.slow = true
			if !l.submit(t.Context(), laneOrdinary, j) {
				t.Fatal("a job was refused")
			}
			gates = append(gates, g)
		}
		for _, want := range []int{2, 1, 5, 4} {
			if got := running(gates); got != want {
				t.Errorf("%d requests run, want %d", got, want)
			}
			close(gates[0].open)
			gates = gates[1:]
		}
		openAll(gates)
		l.wg.Wait()
	})
}

// TestAQuietConnectionIsNext: a connection has sent many requests. A single request of another
// one runs at once. If that sends a second one, it waits for only one of the many, and for the
// end of its answer.
func TestAQuietConnectionIsNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var order []string
		s := share.New(map[observe.Limit]int64{observe.LimitTurns: 1})
		flood := lanesWith(t, s, "flood", func() { order = append(order, "answer") })
		quiet := lanesWith(t, s, "quiet", func() {})
		many := submitGates(t, flood, 2)
		log := func(l *lanes, name string) {
			if !l.submit(t.Context(), laneOrdinary, job{run: func() { order = append(order, name) }}) {
				t.Fatal("a job was refused")
			}
			synctest.Wait()
		}
		for range 3 {
			log(flood, "flood")
		}
		single := submitGates(t, quiet, 1)
		if got := running(single); got != 1 {
			t.Errorf("of a quiet connection %d requests run, want the single one", got)
		}
		log(quiet, "quiet")
		openAll(many)
		flood.wg.Wait()
		openAll(single)
		quiet.wg.Wait()
		if got, want := fmt.Sprint(order), "[answer quiet flood flood flood]"; got != want {
			t.Errorf("got the order %s, want %s", got, want)
		}
	})
}

// TestAHungRequestGivesItsTurnBack: requests of one connection hang on a file system whose
// server is down. Another connection waits for them no longer than quickTime.
func TestAHungRequestGivesItsTurnBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := share.New(map[observe.Limit]int64{observe.LimitTurns: 1})
		hung, quiet := lanesWith(t, s, "hung", func() {}), lanesWith(t, s, "quiet", func() {})
		gates := submitGates(t, hung, 20)
		two := submitGates(t, quiet, 2)
		if got := running(two); got != 1 {
			t.Errorf("%d requests run, want only the first one, which needs no turn", got)
		}
		time.Sleep(quickTime)
		if got := running(two); got != 2 {
			t.Errorf("%d requests run, want both: one waits for a hung one of another connection", got)
		}
		openAll(slices.Concat(gates, two))
		hung.wg.Wait()
		quiet.wg.Wait()
		if used := s.Usage()[0].Used; used != 0 {
			t.Errorf("in the end %d turns are in use, want 0", used)
		}
	})
}
