//go:build linux && !simulation

package simulation

// Without the runtime of testdata/runtime chance remains in the scheduler, and the wall clock is
// the monotonic one.

func simulate(bool, uint64) {}

func simulateJump(int64) {}
