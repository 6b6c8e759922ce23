// Package internal groups packages that only this module needs: wait, which waits for a time or a
// context; atomicfile, which replaces and locks small files; tokens, which stores bearer tokens in
// files; metrics; gather, which counts repeated records of a log; and webpage, the common parts of status pages. The packages import nothing of
// this module except wire and host.
package internal
