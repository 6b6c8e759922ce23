package doctor

import "time"

const (
	// childTime bounds each child. The slowest starts bwrap, which takes a few
	// milliseconds; a host under load needs more.
	childTime = 10 * time.Second
	// killDelay is how long a child's output is read after its end, if a
	// descendant keeps it open.
	killDelay = time.Second
	// maxSaid bounds the part of a program's output that is shown, in bytes.
	maxSaid = 500
)
