package tunnel

import "time"

const (
	// Window is how many bytes the peer of a Stream may be ahead of what has been read
	// there. It bounds what one end keeps for each direction. Through a rendezvous with
	// a round trip of 50 ms one tunnel moves 10 MB/s by it.
	Window = 512 << 10
	// MaxData is the most data of one message, in bytes: messages of other tunnels and
	// the output of processes come between them.
	MaxData = 64 << 10

	// ackEvery is how many bytes are read before they are acknowledged, unless a quarter
	// of the window is less.
	ackEvery = Window / 4
	// LeastIn and LeastOut are the smallest useful windows of the two directions: pieces of a
	// size that is worth a message, and as much as a peer may leave unacknowledged.
	LeastIn  = 16 << 10
	LeastOut = ackEvery
	// mergeBytes is the size up to which pieces that wait to be read are joined: what
	// waits is bounded in bytes only if small pieces do not take a place each.
	mergeBytes = 16 << 10
	// smallRead is the size of the buffer of an idle connection, in bytes. A busy one
	// gets MaxData.
	smallRead = 4 << 10

	// lingerTime is how long a connection has to take the last data of a peer that has
	// closed its tunnel.
	lingerTime = 30 * time.Second
)
