package doctor

import "time"

const (
	// probeTime bounds each child. The slowest starts bwrap, a few
	// milliseconds; a host under load needs more.
	probeTime = 10 * time.Second
	// killDelay is how long after its end a child's output is waited for, if
	// a descendant holds it open.
	killDelay = time.Second
	// maxSaid bounds what is shown of what a program says.
	maxSaid = 500
)
