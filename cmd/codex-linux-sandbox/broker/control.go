//go:build !sandbox_broker_control

package broker

// Control is true in the control of the attacks: a broker that checks a call and then lets the kernel make it, with a command to which
// Landlock grants the roots. Each race of the attacks must win against it; otherwise the race proves nothing. Only the tests
// build it.
const Control = false

// refused is the reply to a call that the policy does not permit: the kernel makes it, and Landlock refuses.
var refused = goesOn
