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
	"runtime/metrics"
	"sync"
)

// The pools. They bound nothing before Ahead is called.
var (
	// Files is for calls that may hang, as on a network file system whose server is down.
	Files = &Pool{}
	// Work is for calls that take milliseconds at most and never hang, as on /proc.
	Work = &Pool{}
)

// Plan says for how many goroutines threads are made.
type Plan struct {
	Files, Work int // slots of the pools
	Spare       int // for calls that no pool bounds
}

// The plans of programs.
var (
	ServerPlan = Plan{serverFiles, serverWork, serverSpare}
	KeeperPlan = Plan{keeperFiles, keeperWork, keeperSpare}
)

// Ahead makes threads and bounds the pools, and returns how many threads there are. If the machine gives less than aheadShare
// times what the plan needs, the pools are smaller. It must be called once, before the pools are used.
func Ahead(p Plan, log *slog.Logger) int {
	processors := runtime.GOMAXPROCS(0)
	p = p.within(Count() + Room()/aheadShare - processors)
	n := Make(processors + p.Files + p.Work + p.Spare)
	Files.bound(p.Files, grow, log)
	Work.bound(p.Work, nil, nil)
	return n
}

// within returns the plan, or one for no more than n threads: the pools get two thirds of them. Each has a slot at least.
func (p Plan) within(n int) Plan {
	if p.Files+p.Work+p.Spare <= n {
		return p
	}
	third := max(1, n/3)
	return Plan{min(p.Files, third), min(p.Work, third), min(p.Spare, third)}
}

// grow makes n more threads. It returns false if the machine has no room for them.
func grow(n int) bool {
	if Room() < roomToGrow {
		return false
	}
	Make(Count() + n)
	return true
}

// Count returns how many threads the Go runtime has.
func Count() int {
	s := []metrics.Sample{{Name: "/sched/threads/total:threads"}}
	metrics.Read(s)
	return int(s[0].Value.Uint64())
}

// Make makes threads until there are as many as wanted, and returns how many there are. If the machine does not give
// them, the runtime ends the program.
func Make(wanted int) int {
	var locked sync.WaitGroup
	release := make(chan struct{})
	for Count() < wanted {
		began := make(chan struct{})
		locked.Go(func() {
			// The thread of a goroutine that is locked to it waits with the goroutine, and runs no other one.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			close(began)
			<-release
		})
		<-began
	}
	close(release)
	locked.Wait()
	return Count()
}
