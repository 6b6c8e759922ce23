// Package share divides the resources of a server among its clients, so that no client can use
// up what the others need (docs/protocol.md, "Limits").
//
// A principal identifies a client: a user, a certificate or a token. Each connection of a
// principal has an Account. The server takes each resource that it uses for a connection from
// the connection's account, under the name of a limit. It gives the resource back after use, at
// the latest when it closes the account.
//
// A principal may have at most half of what the others leave, so that the next principal always
// gets something. A single principal gets half. If it takes all of that, a second principal
// gets a quarter. The user of the server's own machine is an exception: it may have everything
// that is free.
//
// Take returns an error if the amount is too large: it is for connections, watches and
// processes. Wait waits for the amount: it is for memory of answers, and for system calls that
// may hang. Of the waiting accounts, the one is next that
// was served least recently.
package share
