//go:build linux || darwin

package execserver

import (
	"sync/atomic"
	"time"
)

// confinedTimes remembers when a confined process last started or ended. A peer
// on the port whose process cannot be seen may be one that such a process left
// behind.
type confinedTimes struct{ at atomic.Int64 }

// started is what the monotonic times are counted from.
var started = time.Now()

func (c *confinedTimes) note() { c.at.Store(int64(time.Since(started)) + 1) }

// last returns the time, or the zero time if there was no such process.
func (c *confinedTimes) last() time.Time {
	at := c.at.Load()
	if at == 0 {
		return time.Time{}
	}
	return started.Add(time.Duration(at))
}
