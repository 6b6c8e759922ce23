//go:build !unix

package safeopen

// nonBlocking is 0: on this system opening a file does not wait.
const nonBlocking = 0
