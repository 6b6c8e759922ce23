//go:build linux

package launcher

// oldAttributes are calls that this architecture does not have.
var oldAttributes []uint32
