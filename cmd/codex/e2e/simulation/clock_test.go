//go:build linux

package simulation

import (
	"time"
)

// jumps sets the wall clock of all machines some times, by seconds or by days, forward or back, as
// an administrator or a daemon does that finds it wrong, and as the end of a suspension does. The
// monotonic clock and with it all timers go on. Only a build for simulation can do that: see doc.go.
func (w *world) jumps() {
	rng := dice(w.seed, "clock", 0)
	if rng.IntN(3) > 0 {
		return
	}
	for range 1 + rng.IntN(3) {
		most := []time.Duration{time.Minute, time.Hour, 40 * 24 * time.Hour}[rng.IntN(3)]
		by := between(rng, -most, most)
		w.net.after(between(rng, time.Millisecond, 15*time.Second), func() {
			w.note("the wall clock jumps by %v", by)
			simulateJump(int64(by))
		})
	}
}
