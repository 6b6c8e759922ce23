package websocket

import "time"

const (
	// DefaultMaxMessage is the most that one incoming message may hold: the
	// base64 of a 48 MiB file, so 64 MiB, and a margin for its envelope.
	// Larger files are written in blocks.
	DefaultMaxMessage = 64<<20 + 64<<10

	// DefaultMaxLine is the same bound for a line over stdio. Codex CLI has no
	// bound there. A 512 MiB file as base64 fits.
	DefaultMaxLine = 768 << 20

	// maxFrame is the largest frame that is sent. Peers commonly refuse
	// frames above 16 MiB, so a larger message goes out in fragments.
	maxFrame = 8 << 20

	// writeSlice is the most bytes of one write call. It is small enough that
	// progress distinguishes a slow peer from a dead one. If writes have a
	// timeout, each slice gets its own.
	writeSlice = 256 << 10

	// maxOpening bounds the bytes that are read until a websocket is open: the
	// certificates and the answers of the server and of a proxy.
	maxOpening = 256 << 10

	// closeReasonLimit is what RFC 6455 leaves for the reason of a close
	// frame: 125 bytes less the code.
	closeReasonLimit = 123

	// lingerTime and lingerBytes bound for how long and how many bytes a closing
	// connection reads on. Closing a socket with unread data resets it, and the
	// peer may then not receive the close frame with the reason.
	lingerTime  = 3 * time.Second
	lingerBytes = 1 << 30

	// requestTime bounds how long an unauthenticated client may take to send its
	// request, head and body together.
	requestTime = 10 * time.Second
	// answerTime bounds how long such a client may take to read the answer.
	answerTime = 5 * time.Second
	// headerBytes bounds a request's head: a websocket upgrade with a token.
	headerBytes = 64 << 10

	// closeTime bounds pending writes when a connection is closed.
	closeTime = 2 * time.Second

	// gatherBytes is how many bytes Add collects before it writes: a full record
	// of a relayed stream and some small ones. gatherSpare is the size of the
	// last frame that may exceed it.
	gatherBytes = 64 << 10
	gatherSpare = 64 << 10
	// vectorBytes is the size, in bytes, from which a message is not copied
	// after others, but written from its own memory.
	vectorBytes = 32 << 10
	// deadlineSteps is in how many steps a read deadline moves within the time
	// between two pings.
	deadlineSteps = 16
)
