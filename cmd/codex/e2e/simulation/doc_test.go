// Package simulation plays a client and a server against each other in one testing/synctest bubble: the programs are
// real; the network between them, the processes of the server and the clock are simulated. A seed decides when
// connections are made, how late bytes arrive, when and how connections break, what clients do and what processes
// print. In every second run both meet at a rendezvous service, whose registry and relay are in the bubble and may
// restart, with or without their state.
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
// A seed decides everything that the simulation does, and, by testing/cryptotest, the random numbers of cryptography.
// It does not decide the choices of Go's runtime: the order of runnable goroutines, of ready select cases, and of maps.
// Most runs do not depend on these, and their replays are exact, to the nanosecond. A run that does depend on them may
// take another course in a replay: --times plays a seed repeatedly, so that other courses appear.
package simulation
