package tunnel

import (
	"os"
	"time"
)

// errTimeout is the error of a deadline that has passed: a net.Error.
var errTimeout = os.ErrDeadlineExceeded

// deadline is a point in time that may be moved. The stream's lock guards it.
type deadline struct{ at time.Time }

func (d *deadline) set(t time.Time) { d.at = t }

func (d *deadline) passed() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

// channel returns a channel that gets a value when the deadline has passed; nil: there is
// no deadline. An unused channel needs no clean-up.
func (d *deadline) channel() <-chan time.Time {
	if d.at.IsZero() {
		return nil
	}
	return time.After(time.Until(d.at))
}
