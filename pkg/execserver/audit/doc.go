// Package audit keeps a trail of requests to a server: a file of JSON lines that is only
// appended to.
//
// Each line has a number and the SHA-256 of the line before it, so that no line can be
// changed, removed or inserted without changing all later ones. At intervals, and at the
// end of each file, a line has an Ed25519 signature of everything before it, made with the
// server's key: without the key, later lines cannot be forged. Only the newest lines have
// no signature yet: a reader who must detect a truncated trail keeps a copy, or the last
// number, elsewhere.
//
// A Log writes a trail. Verify checks one.
package audit
