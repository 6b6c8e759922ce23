// Package simulation runs a client and a server in one testing/synctest bubble. The programs are real; the network
// between them, the processes of the server and the clock are simulated. A seed determines when connections are made,
// the delay of bytes, when and how connections break, the operations of clients and the output of processes. In every
// second run both meet at a rendezvous service, whose registry and relay are in the bubble and may restart, with or
// without their state.
//
//	scripts/simulate --count 10000                one campaign
//	scripts/simulate --seed 4711                  one seed again, with its history
//	scripts/simulate --seed 4711 --packets        and with every packet
//	scripts/simulate --seed 4711 --times 100      one seed a hundred times
//
// Each run checks these properties: a client receives every byte that its process has printed, once and in order; an
// accepted write has reached the process once, and a write of unknown outcome at most once; every call ends; no
// goroutine is left. Histories of start, write, resume and take-over are checked by porcupine against a model of the
// session.
//
// A seed determines every choice of the simulation and, by testing/cryptotest, the random numbers of cryptography. It
// does not determine the choices of Go's runtime: the order of runnable goroutines, of ready select cases, and of maps.
// Most runs do not depend on these, and their replays are exact, to the nanosecond. A run that does depend on them may
// differ in a replay. --times plays a seed repeatedly, to find such differences.
package simulation
