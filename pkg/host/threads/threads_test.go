package threads

import (
	"fmt"
	"log/slog"
	"os"
	"runtime/metrics"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil"
)

// TestMake: there are as many threads as were made, and goroutines in as many system calls need no other.
func TestMake(t *testing.T) {
	const calls = 20
	wanted := Count() + calls
	if got := Make(wanted); got < wanted {
		t.Fatalf("there are %d threads, want %d", got, wanted)
	}
	made := Count()
	if got := Make(wanted); got != made {
		t.Errorf("a second Make has made %d threads more", got-made)
	}
	block(t, calls)
	if got := Count(); got > made {
		t.Errorf("%d system calls have made the runtime start %d threads", calls, got-made)
	}
	block(t, calls+made)
	if got := Count(); got <= made {
		t.Errorf("the control, %d system calls, has started no thread", calls+made)
	}
}

// block has n goroutines in system calls at a time.
func block(t *testing.T, n int) {
	t.Helper()
	var pipe [2]int
	if err := syscall.Pipe(pipe[:]); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error)
	for range n {
		go func() {
			var b [1]byte
			_, err := syscall.Read(pipe[0], b[:])
			ended <- err
		}()
	}
	testutil.Eventually(t.Context(), t, "the goroutines in system calls", func() (string, bool) {
		in := []metrics.Sample{{Name: "/sched/goroutines/not-in-go:goroutines"}}
		metrics.Read(in)
		return fmt.Sprint(in[0].Value.Uint64()), in[0].Value.Uint64() >= uint64(n)
	})
	_ = syscall.Close(pipe[1])
	for range n {
		if err := <-ended; err != nil {
			t.Error(os.NewSyscallError("read", err))
		}
	}
	_ = syscall.Close(pipe[0])
}

// TestWithin: a plan that the machine has no room for gets smaller, and leaves something of each kind.
func TestWithin(t *testing.T) {
	p := Plan{Files: 20, Starts: 4, Work: 8, Spare: 16}
	for _, tt := range []struct {
		room int
		want Plan
	}{
		{1000, p},
		{48, p},
		{47, Plan{19, 3, 7, 15}},
		{12, Plan{5, 1, 2, 4}},
		{2, Plan{1, 1, 1, 1}},
		{-5, Plan{1, 1, 1, 1}},
	} {
		if got := p.within(tt.room); got != tt.want {
			t.Errorf("room for %d: %+v, want %+v", tt.room, got, tt.want)
		}
	}
}

// TestAhead: a call that comes before the pools are bounded bounds them, and gives its slot back.
func TestAhead(t *testing.T) {
	defer func(files, starts, work *Pool) { Files, Starts, Work = files, starts, work }(Files, Starts, Work)
	Files, Starts, Work = &Pool{}, &Pool{}, &Pool{}
	begin, wait := Ahead(KeeperPlan, slog.New(slog.DiscardHandler))
	for _, p := range []*Pool{Files, Starts, Work} {
		called := false
		if err := p.Do(t.Context(), func() error { called = p.slots.Load() != nil; return nil }); err != nil || !called {
			t.Errorf("%v; with a slot: %v", err, called)
		}
	}
	before := Count()
	begin()
	begin()
	wait()
	if wanted := keeperFiles + keeperStarts + keeperWork + keeperSpare; Count() < wanted {
		t.Errorf("there are %d threads, before %d, want %d at least", Count(), before, wanted)
	}
}
