package doctor

import "time"

const (
	// childTime bounds each child. The slowest starts bwrap, which takes a few
	// milliseconds; a host under load needs more.
	childTime = 10 * time.Second
	// killDelay is how long the output of a child is read after its end, if
	// a descendant holds it open.
	killDelay = time.Second
	// maxSaid bounds what is shown of the output of a program, in bytes.
	maxSaid = 500
)
