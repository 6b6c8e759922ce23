// Package reply has the kinds of results that handlers of requests return. The dispatcher of
// the connection (pkg/execserver/request.go) sends them. The package depends neither on the
// requests nor on the server. It may import the types of the protocol.
package reply

import (
	"io"

	"codex.internal/pkg/execproto"
)

const (
	// Chunk is how many bytes of a large result are encoded at a time: a multiple of three, so
	// that the base64 texts of the chunks can be concatenated.
	Chunk = 768 << 10
	// MaxInline is the size of the largest data that is encoded into the connection's queue.
	// Larger data is sent in parts.
	MaxInline = 256 << 10
)

// Result is what a handler returns for the answer: a type of execproto, which encodes itself,
// or one of the kinds below. The dispatcher encodes it after it has released the request's
// message, so the result must not refer to the params.
type Result interface {
	AppendJSON(b []byte) []byte
}

// Done is the result {}.
type Done = execproto.Empty

// Encoded is a result that already is JSON text.
type Encoded []byte

// AppendJSON implements Result.
func (r Encoded) AppendJSON(b []byte) []byte { return append(b, r...) }

// Large is a result that is too large for the connection's queue. Its JSON text is Head, the
// base64 text of the data, and Tail. It is sent in parts.
type Large struct {
	Head string
	Data Source
	Tail string
}

// Source returns the next piece of the data. Each piece except the last has Chunk bytes. Source
// returns io.EOF with or after the last piece. A piece is valid until the next call, which may
// use buf, a buffer of Chunk bytes.
type Source func(buf []byte) ([]byte, error)

// Bytes returns a Source of data in memory.
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

// Followed is a result with a function that runs after it, for example to free memory of the
// result or to send notifications. The dispatcher calls Then when the result is in the
// connection's queue, was sent, or was dropped because the connection has ended.
type Followed struct {
	Result
	Then func()
	// Sent delays the call of Then until the queue was sent. It is for results whose Then
	// releases memory of the client's share: the queue holds the text of the result until then.
	Sent bool
}

// Pending is a result that is not complete when the handler returns. Pending must not block,
// and must call answer once, before it returns or later from another goroutine. The turn of the
// request ends when Pending returns: later requests about the same object do not wait for the
// answer.
type Pending func(answer func(Result, error))

// AppendJSON is never called: the dispatcher sends a large result in parts.
func (Large) AppendJSON(b []byte) []byte { return b }

// AppendJSON is never called: the dispatcher waits for the result.
func (Pending) AppendJSON(b []byte) []byte { return b }
