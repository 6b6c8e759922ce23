// Package internal groups what only this module needs: wait, which waits for a time or a
// context; atomicfile, which replaces and locks small files; tokens, files with bearer
// tokens; metrics; and webpage, what status pages have in common. The packages import
// nothing of this module but wire and host.
package internal
