//go:build linux

// Package simulation plays a client and a server against each other in one
// testing/synctest bubble: the programs are real but for the network between them, the
// processes below the server and the clock. A seed decides when connections are made, how
// late bytes come, when connections break and how, what clients do and what processes
// print. In every other run both meet at a rendezvous service, whose registry and relay are
// in the bubble and may end and begin anew, with or without their state.
//
//	scripts/simulate --count 10000                one campaign
//	scripts/simulate --seed 4711                  one seed again, with its history
//	scripts/simulate --seed 4711 --packets        and with every packet
//	scripts/simulate --count 1 --replay 1000      a thousand seeds, each twice
//
// What must hold: a client sees every byte that its process has printed, once and in order;
// a write that is accepted has reached the process once, one whose outcome is unknown at
// most once; every call ends; no goroutine is left. Histories of start, write, resume and
// take-over are checked by porcupine against a model of the session.
//
// A replay is exact, to the nanosecond and the byte, if scripts/simulate builds the tests: it takes the
// runtime of Go with the changes of testdata/runtime, by which the seed decides what the runtime
// decides by chance (the order of goroutines, of the cases of a select that are ready and of timers of the same
// moment, and maps), and nothing depends on how long something takes on the machine: no goroutine
// loses the processor before it blocks, and no Mutex becomes unfair. There is one processor,
// no collector during a run, and what is random in cryptography comes from testing/cryptotest. That runtime can set
// the wall clock of a bubble, too. Without it, as "go test" plays some seeds, what can happen is the same but for
// jumps of the clock, and a replay may differ.
package simulation
