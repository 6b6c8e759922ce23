// Package notify receives the system calls that a filter stops, and answers them (seccomp_unotify(2)). It also reads the
// memory of a thread whose call waits, and duplicates its descriptors. Packages mediate and broker decide what the answers
// are; this package decides nothing.
//
// While a call waits, its thread does nothing else, and its number belongs to no other thread. But the thread may be killed at
// any moment. So data that was read from a thread must not be used before Valid has confirmed that the call still waits.
// Other threads of the process may change memory and descriptors at any time.
package notify
