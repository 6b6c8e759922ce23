//go:build linux

// Package simulation plays a client and a server against each other in one
// testing/synctest bubble: the programs are real but for the network between them, the
// processes below the server and the clock. A seed decides when connections are made, how
// late bytes come, when connections break and how, what clients do and what processes
// print. In every other run both meet at a rendezvous service, whose registry and relay are
// in the bubble and may end and begin anew, with or without their state.
//
//	scripts/simulate --count 10000    a campaign
//	scripts/simulate --seed 4711      one seed again, with its history
//
// What must hold: a client sees every byte that its process has printed, once and in order;
// a write that is accepted has reached the process once, one whose outcome is unknown at
// most once; every call ends; no goroutine is left. Histories of start, write, resume and
// take-over are checked by porcupine against a model of the session.
//
// Every source of chance is derived from the seed, keys and nonces too, and the network decides by the number of
// the byte. The scheduler of the runtime is not under control; on one processor, without
// the collector and preemption by signals, it seldom decides anything.
package simulation
