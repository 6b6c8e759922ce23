package approval

import "time"

const (
	// maxApprovals bounds what a Session remembers: far more commands than a
	// person approves one by one. What is approved beyond it counts once, and
	// is asked about again.
	maxApprovals = 4096

	// referenceExit and referenceOutput are the reference's patience after a
	// start and after an exit; see Window.
	referenceExit   = 150 * time.Millisecond
	referenceOutput = 20 * time.Millisecond
)
