// Package share divides what a server has among its clients: what one takes is not lost to the others
// (docs/protocol.md, "Limits").
//
// A principal is who a client is: a user, a certificate or a token. Each of its connections has an Account. What
// the server holds for a connection is taken from its account under the name of a limit, and given back when it is not held
// any more, at the latest when the account is closed.
//
// A principal may have at most half of what the others leave, so that the next one always gets something: with
// one principal that is half, with a second one that takes all that it may a half and a quarter. The user of the server's
// own machine is the exception, and may have everything that is free.
//
// Take refuses what does not fit: connections, watches, processes. Wait waits for it: memory for answers, turns
// for system calls that may hang. Accounts that wait are served in turn.
package share
