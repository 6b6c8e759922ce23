// Package reply has the kinds of results that handlers of requests return. The dispatcher of the connection
// (pkg/execserver/request.go) sends them. The package knows no request and no server; it may import the types
// of the protocol.
package reply

import (
	"io"

	"codex.internal/pkg/execproto"
)

const (
	// Chunk is how much of a large result is encoded at a time: a multiple of three, so that the base64
	// texts of the chunks join up.
	Chunk = 768 << 10
	// MaxInline is the largest data that is encoded into the connection's queue; larger data is sent in
	// parts.
	MaxInline = 256 << 10
)

// Result is what a handler returns for the answer: a type of execproto, which
// encodes itself, or one of the kinds below. It is encoded after the request's
// message was released, so it must not refer to the params.
type Result interface {
	AppendJSON(b []byte) []byte
}

// Done is the result {}.
type Done = execproto.Empty

// Encoded is a result that is JSON text already.
type Encoded []byte

// AppendJSON implements Result.
func (r Encoded) AppendJSON(b []byte) []byte { return append(b, r...) }

// Large is a result that is too large for the connection's queue: the JSON
// text Head + base64 of the data + Tail, sent in parts.
type Large struct {
	Head string
	Data Source
	Tail string
}

// Source yields data in pieces, each of Chunk bytes but the last, and
// io.EOF with or after the last. A piece is valid until the next call, which
// may use buf, of Chunk bytes.
type Source func(buf []byte) ([]byte, error)

// Bytes yields data that is in memory.
func Bytes(data []byte) Source {
	return func([]byte) ([]byte, error) {
		piece := data[:min(len(data), Chunk)]
		data = data[len(piece):]
		if len(data) == 0 {
			return piece, io.EOF
		}
		return piece, nil
	}
}

// Followed is a result after which something is left to do: free what the
// result refers to, or send notifications. Then is called when the result is in
// the connection's queue or sent, or was dropped because the connection ended.
type Followed struct {
	Result
	Then func()
	// Sent has Then wait until the queue was sent: it gives back the client's share of the memory, and the queue holds the
	// text of the result until then.
	Sent bool
}

// Pending is a result that comes later, from another goroutine or before it
// returns. It must not block, and answer must be called once. The turn of the
// request ends when Pending returns: later requests about the same object do
// not wait for the answer.
type Pending func(answer func(Result, error))

// AppendJSON is never called: the dispatcher sends a large result in parts.
func (Large) AppendJSON(b []byte) []byte { return b }

// AppendJSON is never called: the dispatcher waits for the result.
func (Pending) AppendJSON(b []byte) []byte { return b }
