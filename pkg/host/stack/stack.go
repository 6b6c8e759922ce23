// Package stack saves short-lived goroutines the growth of their stacks.
package stack

// room is how much Grow asks for, in bytes: with what is on the stack it is more than 4 KiB, so that the
// next size is 8 KiB.
const room = 3 << 10

// Grow makes the stack of the calling goroutine 8 KiB large, before there is much on it. The Go
// runtime starts goroutines with 2 KiB, and doubles and copies a stack each time that it does
// not suffice: a request to look at a file, which calls 25 functions deep, spent a tenth of its
// time on that. Grow is for goroutines that handle one request and that need so much.
//
//go:noinline
func Grow() {
	var space [room]byte
	touch(&space)
}

// touch keeps space from being left out.
//
//go:noinline
func touch(space *[room]byte) { space[0] = 1 }
