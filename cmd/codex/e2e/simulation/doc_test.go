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
//	scripts/simulate --seed 4711 --times 100      one seed a hundred times
//
// What must hold: a client sees every byte that its process has printed, once and in order;
// a write that is accepted has reached the process once, one whose outcome is unknown at
// most once; every call ends; no goroutine is left. Histories of start, write, resume and
// take-over are checked by porcupine against a model of the session.
//
// A seed decides all that the simulation does, and what is random in cryptography, by testing/cryptotest.
// It does not decide what the runtime of Go does: the order of goroutines that can run, of the cases of a
// select that are ready, and of maps. Most runs do not depend on these, and their replays are exact, to the nanosecond.
// A run that does depend on them may go another way when it is played again: --times plays a seed until each way has come.
package simulation
