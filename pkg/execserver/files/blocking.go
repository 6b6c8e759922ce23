package files

import (
	"context"

	"golang.org/x/sync/semaphore"
)

// calls are those of Blocking. Threads belong to the program, so this counter does, too.
var calls = semaphore.NewWeighted(maxFileCalls)

// Blocking calls f, whose system calls about files may hang, as on a network file system whose server is down: each holds a thread of
// this program for as long. Scenario: clients ask for more files than the machine has threads for. Therefore f waits until fewer than
// maxFileCalls run. Blocking returns what f returns, or the error of ctx if that ends before f begins. f must not call Blocking.
func Blocking[T any](ctx context.Context, f func() (T, error)) (v T, err error) {
	if err := calls.Acquire(ctx, 1); err != nil {
		return v, err
	}
	defer calls.Release(1)
	return f()
}
