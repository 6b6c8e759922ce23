package process

import (
	"context"

	"codex.internal/pkg/host/threads"
)

// work calls f, which makes system calls that take milliseconds: only so many goroutines do so at a time as the
// program has threads for. f must not call work.
func work(f func()) {
	_ = threads.Work.Do(context.Background(), func() error {
		f()
		return nil
	})
}
