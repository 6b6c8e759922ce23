package tunnel

import "time"

const (
	// Window is how many unread bytes a peer may have sent. It bounds the memory of one end for
	// each direction. Through a rendezvous service with a round trip of 50 ms, it permits 10
	// MB/s per tunnel.
	Window = 512 << 10
	// MaxData is the most data of one message, in bytes. Messages of other tunnels and the
	// output of processes can be sent between two such messages.
	MaxData = 64 << 10

	// ackEvery is the number of read bytes after which an acknowledgement is sent. If a quarter
	// of the window is smaller, that applies instead.
	ackEvery = Window / 4
	// LeastIn and LeastOut are the smallest useful windows of the two directions. LeastIn is
	// large enough for a message, and LeastOut for the bytes that a peer may leave
	// unacknowledged.
	LeastIn  = 16 << 10
	LeastOut = ackEvery
	// mergeBytes is the size up to which unread pieces are merged. Otherwise, many small pieces
	// would take much more memory than their bytes.
	mergeBytes = 16 << 10
	// smallRead is the buffer size of an idle connection, in bytes. A busy connection gets a
	// buffer of MaxData bytes.
	smallRead = 4 << 10

	// lingerTime is how long a connection may take to accept the last data of a peer that has
	// closed its tunnel.
	lingerTime = 30 * time.Second
)
