// Package internal groups what only this module needs: strictjson, which decodes
// JSON with exact names, and wait, which waits for a time or a context. The
// packages import nothing of this module but wire.
package internal
