package execserver

import (
	"context"
	"errors"
	"io"
	"slices"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/execserver/observe"
	"codex.internal/pkg/execserver/reply"
	"codex.internal/pkg/execserver/tracing"
	"codex.internal/pkg/fileop/fsops"
)

// fileRequest is a decoded file request that is not about a handle.
type fileRequest struct {
	operation *fsops.Operation
	call      fsops.Call
	json      []byte // the text of the params; lies in the request's message
}

// fileOperation returns the row of a file operation.
func fileOperation(operation *fsops.Operation) row {
	decode := func(json []byte) (fileRequest, error) {
		call, err := operation.Decode(json)
		return fileRequest{operation, call, json}, err
	}
	return plain(familyFilesystem, laneOrdinary, decode, func(ctx context.Context, c *conn, fr *fileRequest) (reply.Result, error) {
		if err := fr.call.Resolve(c.srv.home); err != nil {
			return nil, err
		}
		if !operation.ReadOnly {
			if err := c.mayChange(operation.Method); err != nil {
				return nil, err
			}
		}
		worker, err := c.fileWorker(ctx, fr.call.Sandbox)
		if err != nil {
			return nil, err
		}
		op := observe.File{Session: c.session.seen(), Method: operation.Method, Changes: !operation.ReadOnly, Within: tracing.From(ctx)}
		if op.Changes {
			op.Paths = fr.call.Paths()
		}
		return observed(c, &op, worker, func() (reply.Result, error) { return worker.run(ctx, fr) })
	})
}

// observed runs a file operation of a worker, of which observers are told. If it changes files, the
// audit trail has it before.
func observed[T any](c *conn, op *observe.File, worker fileWorker, run func() (T, error)) (v T, err error) {
	if w, ok := worker.(confinedFiles); ok {
		op.Policy = w.intent.Profile
	}
	op.Err = c.srv.events.FileStarting.Ask(op)
	if op.Err == nil {
		v, op.Err = run()
	}
	c.srv.events.FileDone.Tell(op)
	return v, op.Err
}

// fileData is the result of fs/readFile with data that is sent in parts.
func fileData(data reply.Source) reply.Large {
	return reply.Large{Head: `{"dataBase64":"`, Data: data, Tail: `"}`}
}

// contentResult returns a file as the result of fs/readFile, and closes it.
func (srv *Server) contentResult(ctx context.Context, c *fsops.Content) (reply.Result, error) {
	if c.Size > reply.MaxInline {
		return srv.largeContent(ctx, c)
	}
	defer c.Close()
	data, err := readSmall(c)
	switch {
	case err != nil:
		return nil, err
	case len(data) > reply.MaxInline:
		return fileData(reply.Bytes(data)), nil
	default:
		return execproto.ReadFileResult{DataBase64: data}, nil
	}
}

// readSmall reads a file to its end. It may be larger than its size says.
func readSmall(c *fsops.Content) ([]byte, error) {
	data := make([]byte, 0, c.Size+1)
	for {
		if len(data) == cap(data) {
			data = slices.Grow(data, 4<<10)
		}
		n, err := c.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		}
	}
}

// largeContent returns a large file as the result of fs/readFile, and closes it
// later. Up to wholeFile bytes are read before the answer begins, so that a read
// error is the answer to the request. A read error after that closes the
// connection.
func (srv *Server) largeContent(ctx context.Context, c *fsops.Content) (reply.Result, error) {
	if c.Size >= releaseAbove {
		srv.memory.used()
	}
	held, err := readChunks(c, min(c.Size, wholeFile))
	end := func() {
		held.free()
		_ = c.Close()
	}
	if err != nil {
		end()
		return nil, err
	}
	data := func(buf []byte) ([]byte, error) {
		if piece, ok := held.next(); ok {
			if held.left() || c.Size > wholeFile {
				return piece, nil
			}
			return piece, io.EOF
		}
		// No slot is waited for, as nothing else is sent meanwhile.
		n, err := io.ReadFull(c, buf)
		return buf[:n], endOfFile(err)
	}
	return reply.Followed{Result: fileData(data), Then: end}, nil
}

// endOfFile returns io.EOF for both errors with which io.ReadFull reports the
// end of the input.
func endOfFile(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}
