package plan

import "golang.org/x/sys/unix"

// oldAttributes are calls that this architecture does not have.
var oldAttributes []uint32

// olderBrokered are calls that this architecture does not have.
var olderBrokered []uint32

var opens = []openCall{{unix.SYS_OPENAT, offsetArg0 + 8*2}}

// oldOwners are calls that this architecture does not have.
var oldOwners []struct{ nr, argument uint32 }
