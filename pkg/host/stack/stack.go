// Package stack saves short-lived goroutines the growth of their stacks.
package stack

// Grow makes the stack of the calling goroutine 8 KiB large, before there is much on it. The Go
// runtime starts goroutines with 2 KiB, and doubles and copies a stack each time that it does
// not suffice: a request to look at a file, which calls 25 functions deep, spent a tenth of its
// time on that. Grow is for goroutines that handle one request and that need so much.
//
//go:noinline
func Grow() {
	var room [3 << 10]byte
	touch(&room)
}

// touch keeps room on the stack.
//
//go:noinline
func touch(room *[3 << 10]byte) { room[0] = 1 }
