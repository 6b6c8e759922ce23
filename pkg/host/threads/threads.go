// Package threads lets a program go on when the machine gives it no more threads.
//
// The Go runtime needs a thread for each processor, and one more for each goroutine in a system call that
// takes long. If it gets none it ends the program: "failed to create new OS thread". Scenario: a
// command takes all processes of the server's user or cgroup. The server reads a file, the disk is slow, the
// runtime needs a thread for the other goroutines, and the server ends with all its sessions.
//
// The runtime keeps the threads that it has. So Ahead makes some while there are any to be had, and pools bound
// the goroutines that need one. The alternative was to let the runtime fail: it calls no hook before
// it ends the program.
//
// System calls that take microseconds, such as those on sockets, are not bounded. If the kernel takes the
// processor away from a goroutine in one of them, the runtime uses another thread for as long. The spare threads are
// for that.
//
// Threads belong to the program, so the pools do, too: there is one of each.
package threads

import (
	"log/slog"
	"runtime"
	"sync"
)

// The pools. They bound nothing before Ahead is called.
var (
	// Files is for calls about files, which may hang, as on a network file system whose server is down.
	Files = &Pool{}
	// Starts is for what is looked up before a process is started. This may hang, too, and must not wait for Files.
	Starts = &Pool{}
	// Work is for calls that take milliseconds at most and never hang, as on /proc.
	Work = &Pool{}
)

// Plan says for how many goroutines threads are made.
type Plan struct {
	Files, Starts, Work int // slots of the pools
	Spare               int // for calls that no pool bounds
}

// The plans of programs.
var (
	ServerPlan = Plan{serverFiles, serverStarts, serverWork, serverSpare}
	KeeperPlan = Plan{keeperFiles, keeperStarts, keeperWork, keeperSpare}
)

// Ahead bounds the pools, and returns begin, which makes threads in a millisecond or two and does not wait for that: the
// caller calls wait in the end. A second call of begin does nothing. What the machine gives is read by begin, or by the
// first call that needs a slot if that comes before: it takes a quarter of a millisecond. If the machine gives less than aheadShare times what the plan needs, the
// pools are smaller. Ahead must be called once, before the pools are used.
func Ahead(p Plan, log *slog.Logger) (begin, wait func()) {
	pools := []*Pool{Files, Starts, Work}
	processors := runtime.GOMAXPROCS(0)
	first := sync.OnceFunc(func() {
		p.Files += processors // which copy what is in memory already
		p = p.within(Count() + Room()/aheadShare - processors)
		for i, size := range []int{p.Files, p.Starts, p.Work} {
			pools[i].bound(size, grow, log)
		}
	})
	for _, pool := range pools {
		pool.first = first
	}
	var all sync.WaitGroup
	begin = sync.OnceFunc(func() {
		all.Go(func() {
			first()
			n := Make(processors + p.threads())
			log.Debug("threads were made ahead", "threads", n)
		})
	})
	return begin, all.Wait
}

// threads returns how many threads the plan needs beside those of the processors.
func (p Plan) threads() int { return p.Files + p.Starts + p.Work + p.Spare }

// within returns the plan, or a smaller one if there are no more than n threads for it. Each pool has a slot at least.
func (p Plan) within(n int) Plan {
	all := p.threads()
	if all <= n {
		return p
	}
	part := func(of int) int { return max(1, of*max(0, n)/all) }
	return Plan{part(p.Files), part(p.Starts), part(p.Work), part(p.Spare)}
}

// grow makes up to n more threads, as many as the machine has room for, and returns how many.
func grow(n int) int {
	n = min(n, Room()-roomToGrow)
	if n <= 0 {
		return 0
	}
	Make(Count() + n)
	return n
}

// Count returns how many threads the Go runtime has.
func Count() int {
	// Package runtime/metrics knows it, too, but takes 50 microseconds when the program starts.
	n, _ := runtime.ThreadCreateProfile(nil)
	return n
}

// Make makes threads until there are as many as wanted, and returns how many there are. If the machine does not give
// them, the runtime ends the program. It takes 30 microseconds for each.
func Make(wanted int) int {
	var locked sync.WaitGroup
	release := make(chan struct{})
	for missing := wanted - Count(); missing > 0; missing = wanted - Count() {
		var begun sync.WaitGroup
		begun.Add(missing)
		for range missing {
			locked.Go(func() {
				// The thread of a goroutine that is locked to it waits with the goroutine, and runs no other one.
				runtime.LockOSThread()
				defer runtime.UnlockOSThread()
				begun.Done()
				<-release
			})
		}
		begun.Wait()
	}
	close(release)
	locked.Wait()
	return Count()
}
