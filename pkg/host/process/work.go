package process

import (
	"context"

	"codex.internal/pkg/host/threads"
)

// work calls f, which makes system calls that take milliseconds. It bounds the goroutines in such calls by the threads
// that the program can have. f must not call work.
func work(f func()) {
	_ = threads.Work.Do(context.Background(), func() error {
		f()
		return nil
	})
}
