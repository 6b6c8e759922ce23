//go:build linux

package simulation

import "time"

// jumps has the wall clock of all machines jump in some runs, by seconds or by days, forward or back:
// an administrator or a daemon corrects it so, and a suspended machine wakes up so. The monotonic
// clock and with it all timers go on. Only a build for simulation can do that: see doc_test.go.
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
