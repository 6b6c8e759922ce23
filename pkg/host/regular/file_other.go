//go:build !unix

package regular

// nonBlocking is not needed: no file that is opened by its path waits.
const nonBlocking = 0
