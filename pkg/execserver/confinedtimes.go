package execserver

import (
	"sync/atomic"
	"time"
)

// confinedTimes records when a confined process last started or ended. A client
// on the port whose process is not visible may be a child that a confined
// process left behind: it is refused for a while after that time.
type confinedTimes struct{ at atomic.Int64 }

// epoch is the zero of the monotonic times in confinedTimes.
var epoch = time.Now()

func (c *confinedTimes) record() { c.at.Store(int64(time.Since(epoch)) + 1) }

// last returns the time, or the zero time if there was no such process.
func (c *confinedTimes) last() time.Time {
	at := c.at.Load()
	if at == 0 {
		return time.Time{}
	}
	return epoch.Add(time.Duration(at))
}
