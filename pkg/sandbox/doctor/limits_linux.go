package doctor

import "time"

const (
	// childTime is the time limit of each child. The slowest child starts bwrap, which takes a few
	// milliseconds; it takes longer on a host under load.
	childTime = 10 * time.Second
	// killDelay is how long the output of an ended child is read if a descendant keeps the pipe
	// open.
	killDelay = time.Second
	// maxSaid is the most that is shown of a program's output, in bytes.
	maxSaid = 500
)
