//go:build !unix

package regular

// nonBlocking is 0: on this system opening a file does not wait.
const nonBlocking = 0
