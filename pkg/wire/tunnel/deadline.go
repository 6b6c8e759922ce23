package tunnel

import (
	"os"
	"time"
)

// errTimeout is the error after a deadline has passed. It is a net.Error.
var errTimeout = os.ErrDeadlineExceeded

// deadline is a time that may be changed. The stream's lock guards it.
type deadline struct{ at time.Time }

func (d *deadline) set(t time.Time) { d.at = t }

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// channel returns a channel that receives a value when the deadline has passed; nil: there is
// no deadline. The caller need not release an unused channel.
func (d *deadline) channel() <-chan time.Time {
	if d.at.IsZero() {
		return nil
	}
	return time.After(time.Until(d.at))
}
