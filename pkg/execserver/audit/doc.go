// Package audit keeps a trail of requests to a server: a file of JSON lines that is only
// appended to.
//
// Each line has a number and the SHA-256 of the line before it, so that no line can be
// changed, removed or inserted without changing all later ones. At intervals, and at the
// end of each file, a line has an Ed25519 signature of everything before it, made with the
// server's key: without the key, later lines cannot be forged. Only the newest lines have
// no signature yet. A trail that was truncated after a signature is still valid: a reader who
// must detect that keeps the Position of the last line elsewhere.
//
// A Log checks its file before each line and at intervals, and records in the next file what another
// program has changed.
//
// A Log writes a trail. Verify checks one.
package audit
