package codexfs

import (
	"context"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
)

// do carries out a request that is not about a handle, and answers it. It returns an error if
// the request is malformed. An error of the operation is the answer.
func (s *session) do(rq request) error {
	operation := fsops.Find(rq.operation)
	if operation == nil {
		return unknownOperation(rq.operation)
	}
	call, err := operation.Decode(rq.params)
	if err != nil {
		return err
	}
	if err := call.Resolve(rq.home); err != nil {
		return s.fail(err)
	}
	r, err := call.Run(context.Background(), true)
	switch {
	case err != nil:
		return s.fail(err)
	case r.Content != nil:
		defer r.Content.Close()
		return s.content(r.Content)
	default:
		return s.answer(rq.operation, r.Value)
	}
}

// content answers fs/readFile: it encodes and sends the file while it reads it. The answer
// begins after the first part was read, so that an earlier read error can be the answer. After
// a later read error the answer is incomplete, and content returns the error.
func (s *session) content(c *fsops.Content) error {
	chunk := make([]byte, fileChunk)
	for begun, whole := false, false; !whole; {
		n, err := io.ReadFull(c, chunk)
		whole = err == io.EOF || err == io.ErrUnexpectedEOF
		switch {
		case err != nil && !whole && !begun:
			return s.fail(err)
		case err != nil && !whole:
			return err
		case !begun:
			begun = true
			s.out.begin(execproto.MethodFSReadFile, int(max(c.Size, int64(n)))/3*4)
			s.out.text(`{"dataBase64":"`)
		}
		s.out.base64(chunk[:n])
	}
	s.out.text(`"}`)
	return s.out.end()
}
