package websocket

import "time"

const (
	// DefaultMaxMessage is the default size of the largest incoming message: the base64 text of
	// a file of 48 MiB has 64 MiB, and the rest is a margin for its envelope. Larger files are
	// written in blocks.
	DefaultMaxMessage = 64<<20 + 64<<10

	// DefaultMaxLine is the default limit for a line over stdio, where Codex CLI has no limit.
	// The base64 text of a file of 512 MiB fits.
	DefaultMaxLine = 768 << 20

	// maxFrame is the size of the largest frame that is sent. Peers commonly refuse frames
	// above 16 MiB, so a larger message is sent in fragments.
	maxFrame = 8 << 20

	// writeSlice is the largest number of bytes in one write call. It is so small that its
	// progress distinguishes a slow peer from a dead one. A write timeout applies to each slice
	// separately.
	writeSlice = 256 << 10

	// maxOpening bounds the bytes that are read until a websocket is open: the
	// certificates and the answers of the server and of a proxy.
	maxOpening = 256 << 10

	// closeReasonLimit is the size of the longest reason in a close frame: RFC 6455 permits 125
	// bytes, of which the code takes two.
	closeReasonLimit = 123

	// lingerTime and lingerBytes bound how long, and how many bytes, a connection reads after
	// its own close frame. Closing a socket with unread data resets the connection, and the
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

	// closeTime bounds pending writes after a call of Close or Interrupt.
	closeTime = 2 * time.Second

	// gatherBytes is how many bytes Add collects before it writes: a full record of a relayed
	// stream and some small ones. gatherSpare is the space for the last frame, which may exceed
	// gatherBytes.
	gatherBytes = 64 << 10
	gatherSpare = 64 << 10
	// vectorBytes is the size, in bytes, from which a message is written from its own memory
	// instead of being copied behind others.
	vectorBytes = 32 << 10
	// deadlineSteps is the number of steps per ping interval in which a read deadline is
	// extended.
	deadlineSteps = 16
)
