package tunnel

import "time"

const (
	// Window is how many bytes a peer may send before they have been read at the other
	// end. It bounds the memory of one end for each direction. Through a rendezvous
	// service with a round trip of 50 ms, it permits 10 MB/s per tunnel.
	Window = 512 << 10
	// MaxData is the most data of one message, in bytes, so that messages of other
	// tunnels and the output of processes can be sent in between.
	MaxData = 64 << 10

	// ackEvery is how many bytes are read before they are acknowledged, unless a quarter
	// of the window is less.
	ackEvery = Window / 4
	// LeastIn and LeastOut are the smallest useful windows of the two directions: pieces
	// large enough for a message, and as much as a peer may leave unacknowledged.
	LeastIn  = 16 << 10
	LeastOut = ackEvery
	// mergeBytes is the size up to which pieces that wait to be read are joined.
	// Without that, many small pieces would take much more memory than their bytes.
	mergeBytes = 16 << 10
	// smallRead is the size of the buffer of an idle connection, in bytes. A busy one
	// gets MaxData.
	smallRead = 4 << 10

	// lingerTime is how long a connection has to take the last data of a peer that has
	// closed its tunnel.
	lingerTime = 30 * time.Second
)
