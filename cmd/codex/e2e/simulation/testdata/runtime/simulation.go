package runtime

import _ "unsafe" // for go:linkname

// simulation makes a function of a seed what the runtime otherwise decides by chance, or by how much
// time has passed on the machine. It is for one bubble of testing/synctest at a time, in a
// program with one P, that does not collect garbage by itself.
var simulation struct {
	on     bool   // is written with sched.sysmonlock
	began  int64  // on the clock of the machine
	chosen uint64 // state of the generator of what the runtime chooses
	drawn  uint64 // state of the generator of what rand returns
	maps   uint64 // seed of each map, and where each iteration begins
	jump   int64  // of the wall clock of the bubble, in nanoseconds
}

// simulationGrace is for how long no goroutine loses the P: a test that hangs can be ended by its
// timeout after that. Hardly a simulation takes a second.
const simulationGrace = 60e9

// simulate begins or ends a simulation.
//
//go:linkname simulate
func simulate(on bool, seed uint64) {
	lock(&sched.sysmonlock) // sysmon is not about to preempt anything
	simulation.on = on
	simulation.began = nanotime()
	simulation.chosen = seed
	simulation.drawn = ^seed
	simulation.maps = simulatedNext(&seed)
	simulation.jump = 0
	unlock(&sched.sysmonlock)
	Gosched() // what was asked to yield before has done so then
}

// simulateJump has the wall clock of the bubble jump. The monotonic clock goes on.
//
//go:linkname simulateJump
func simulateJump(by int64) { simulation.jump += by }

// simulated reports whether a goroutine, which may be nil, is one of the simulation.
//
//go:nosplit
func simulated(gp *g) bool { return simulation.on && gp != nil && gp.bubble != nil }

// simulatedNext is splitmix64.
//
//go:nosplit
func simulatedNext(state *uint64) uint64 {
	*state += 0x9e3779b97f4a7c15
	z := *state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// simulatedChoice is cheaprandn for what decides the order of goroutines.
//
//go:nosplit
func simulatedChoice(gp *g, n uint32) uint32 {
	if !simulated(gp) {
		return cheaprandn(n)
	}
	return uint32((uint64(uint32(simulatedNext(&simulation.chosen))) * uint64(n)) >> 32)
}

// simulationKey is what is hashed of a key of eight bytes. All pointers into the heap are the same: where
// objects lie depends on what was there before, and the order of a map with more than eight
// entries must not depend on that. The children of a context are such a map. (Maps are not made for that:
// one with more than 896 pointers would take all memory.)
func simulationKey(key uintptr) uintptr {
	if spanOfHeap(key) != nil {
		return 0
	}
	return key
}
