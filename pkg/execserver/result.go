package execserver

import (
	"io"

	"codex.internal/pkg/execproto"
)

// result is what a handler returns for the answer: a type of execproto, which
// encodes itself, or one of the kinds below. It is encoded after the request's
// message was released, so it must not refer to the params.
type result interface {
	AppendJSON(b []byte) []byte
}

// done is the result {}.
type done = execproto.Empty

// encoded is a result that is JSON text already.
type encoded []byte

// AppendJSON implements result.
func (r encoded) AppendJSON(b []byte) []byte { return append(b, r...) }

// large is a result that is too large for the connection's queue: the JSON
// text head + base64 of the data + tail, sent in parts.
type large struct {
	head string
	data source
	tail string
}

// followed is a result after which something is left to do: free what the
// result refers to, or send notifications. then is called when the result is in
// the connection's queue or sent, or was dropped because the connection ended.
type followed struct {
	result
	then func()
}

// pending is a result that comes later, from another goroutine or before it
// returns. It must not block, and answer must be called once. The turn of the
// request ends when pending returns: later requests about the same object do
// not wait for the answer.
type pending func(answer func(result, error))

// AppendJSON is never called: the dispatcher sends a large result in parts.
func (large) AppendJSON(b []byte) []byte { return b }

// AppendJSON is never called: the dispatcher waits for the result.
func (pending) AppendJSON(b []byte) []byte { return b }

// bytesSource yields data that is in memory.
func bytesSource(data []byte) source {
	return func([]byte) ([]byte, error) {
		piece := data[:min(len(data), fileChunk)]
		data = data[len(piece):]
		if len(data) == 0 {
			return piece, io.EOF
		}
		return piece, nil
	}
}
