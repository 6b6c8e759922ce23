package execserver

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// Calls about files may hang, as on a network file system whose server is down, and each holds a thread of this program for as long.
// Scenario: clients ask for more files than the machine has threads for. Starts have a share of their own, because they must not wait for
// requests about files. Threads belong to the program, so these counters do, too.
var (
	fileCalls  = semaphore.NewWeighted(maxFileCalls)
	startCalls = semaphore.NewWeighted(maxStartCalls)
)

// blocking calls f, whose system calls may hang, when calls have room for it. It returns what f returns, or the error of ctx if that
// ends before. f must not call blocking with the same calls.
func blocking[T any](ctx context.Context, calls *semaphore.Weighted, f func() (T, error)) (v T, err error) {
	if err := calls.Acquire(ctx, 1); err != nil {
		return v, err
	}
	defer calls.Release(1)
	return f()
}
