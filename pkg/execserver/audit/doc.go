// Package audit keeps a trail of what a server was asked to do: a file of JSON lines that
// is only appended to.
//
// Each line has a number and the SHA-256 of the line before it, so that no line can be
// changed, removed or inserted without changing all later ones. At intervals, and at the
// end of each file, a line has an Ed25519 signature by the server's key of what is before
// it: somebody without the key cannot make the later lines anew. What no signature covers
// are the newest lines: a reader who must know of a trail that was cut short keeps a copy,
// or the last number, elsewhere.
//
// A Log writes a trail. Verify checks one.
package audit
