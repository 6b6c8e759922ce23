package process

import "time"

// killTime bounds the wait for killed processes to end. A process that waits for I/O on a dead disk
// may never end.
const killTime = 2 * time.Second
