package launcher

import (
	"runtime"
	"sync"
)

// spareThreads is how many threads the launcher makes ahead. A launcher that waits has 4 to 6, and had up to 9 later: for
// signals, and for the goroutines that go on while it waits for the sandbox.
const spareThreads = 4

// makeThreads makes threads that have nothing to do. Scenario: the machine has no more threads, as a fork bomb has taken all. The Go
// runtime ends a program that needs one and gets none, and the command would end with the launcher. A launcher that ends here
// has run nothing: see launch.Unbegun.
func makeThreads() {
	var locked, begun sync.WaitGroup
	release := make(chan struct{})
	begun.Add(spareThreads)
	for range spareThreads {
		locked.Go(func() {
			// The thread of a goroutine that is locked to it waits with the goroutine, and runs no other one.
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			begun.Done()
			<-release
		})
	}
	begun.Wait()
	close(release)
	locked.Wait()
}
