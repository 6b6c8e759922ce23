package process

import "time"

// killTime bounds the wait for killed processes to end: one that is in the
// middle of I/O to a dead disk may not end at all.
const killTime = 2 * time.Second
