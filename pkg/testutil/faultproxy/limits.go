package faultproxy

import "time"

const (
	// readSize is the most that is read at a time: as much as a websocket peer
	// usually writes at once.
	readSize = 32 << 10

	// dialTime bounds the connection to the target, which is a server of the
	// same test.
	dialTime = 10 * time.Second

	// mostPieces is approximately the number of pieces into which a random plan splits a
	// connection's bytes before they are cut, so that small pieces do not make a test slow.
	mostPieces = 1000
)
