//go:build !linux

package threads

import "math"

// Room returns how many more threads the machine gives. It is not known on this system.
func Room() int { return math.MaxInt32 }
