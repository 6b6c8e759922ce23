//go:build linux || darwin

package execserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/pathuri"
)

// withPath runs f with the native path of a request, in the ordinary lane. The
// answer is f's error, or {} if that is nil. If the request must be confined, a
// helper carries it out and f is not called.
func (rq *request) withPath(uri string, sandbox json.RawMessage, f func(ctx context.Context, path string) error) {
	path, err := pathuri.Parse(uri, rq.c.srv.home)
	if err != nil {
		rq.fail(err)
		return
	}
	intent, err := rq.c.srv.fileIntent(sandbox)
	if err != nil {
		rq.fail(err)
		return
	}
	if intent != nil {
		rq.workConfined(intent)
		return
	}
	rq.work("", func(ctx context.Context) {
		if err := f(ctx, path); !errors.Is(err, errAnswered) {
			rq.finish(err)
		}
	})
}

// errAnswered is returned by a function for withPath that has sent the answer.
var errAnswered = errors.New("answered")

// answer answers with r unless there is an error.
func (rq *request) answer(r appender, err error) error {
	if err != nil {
		return err
	}
	rq.result(r)
	return errAnswered
}

func fsReadFile(rq *request, p *execproto.LinkPathParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		f, size, err := files.OpenRegular(path, fsops.LinkOptions(p.FollowSymlinks))
		if err != nil {
			return err
		}
		defer f.Close()
		if size <= inlineBody {
			data, err := readSmall(f, size)
			if err == nil && len(data) > inlineBody {
				rq.stream(`{"dataBase64":"`, bytesSource(data), `"}`)
				return errAnswered
			}
			return rq.answer(execproto.ReadFileResult{DataBase64: data}, err)
		}
		return rq.streamFile(f, size)
	})
}

// readSmall reads a whole file of the given size in bytes. The file may be
// larger: files of /proc have size 0, and a log grows meanwhile.
func readSmall(f *os.File, size int64) ([]byte, error) {
	data := make([]byte, 0, size+1)
	for {
		if len(data) == cap(data) {
			data = slices.Grow(data, 4<<10)
		}
		n, err := f.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case errors.Is(err, io.EOF):
			return data, nil
		case err != nil:
			return nil, err
		case len(data) > files.MaxReadFile:
			return nil, invalid(fmt.Sprintf("file is too large to read: limit is %d bytes", files.MaxReadFile))
		}
	}
}

// streamFile answers with a large file. Up to wholeFile bytes are read before
// the answer begins, so that a read error is the answer to the request. A read
// error after that closes the connection.
func (rq *request) streamFile(f *os.File, size int64) error {
	if size >= releaseAbove {
		rq.c.srv.memory.used()
	}
	held, err := readChunks(f, min(size, wholeFile))
	defer held.free()
	if err != nil {
		return err
	}
	// Bytes that are appended after the file was opened, as to a log, are left out.
	rest := io.LimitReader(f, size-held.size)
	rq.stream(`{"dataBase64":"`, func(buf []byte) ([]byte, error) {
		if piece, ok := held.next(); ok {
			if held.left() || size > wholeFile {
				return piece, nil
			}
			return piece, io.EOF
		}
		n, err := io.ReadFull(rest, buf)
		return buf[:n], endOfFile(err)
	}, `"}`)
	return errAnswered
}

// endOfFile returns io.EOF for both errors with which io.ReadFull reports the
// end of the input.
func endOfFile(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

func fsWriteFile(rq *request, p *execproto.WriteFileParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error { return fsops.WriteFile(path, p, false) })
}

func fsCreateDirectory(rq *request, p *execproto.CreateDirectoryParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error { return fsops.CreateDirectory(path, p) })
}

func fsGetMetadata(rq *request, p *execproto.LinkPathParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		r, err := fsops.GetMetadata(path, p)
		return rq.answer(r, err)
	})
}

func fsCanonicalize(rq *request, p *execproto.PathParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		r, err := fsops.Canonicalize(path)
		return rq.answer(r, err)
	})
}

func fsReadDirectory(rq *request, p *execproto.PathParams) {
	rq.withPath(p.Path, p.Sandbox, func(ctx context.Context, path string) error {
		r, err := fsops.ReadDirectory(ctx, path)
		return rq.answer(r, err)
	})
}

func fsRemove(rq *request, p *execproto.RemoveParams) {
	rq.withPath(p.Path, p.Sandbox, func(ctx context.Context, path string) error { return fsops.Remove(ctx, path, p) })
}

func fsCopy(rq *request, p *execproto.CopyParams) {
	destination, err := pathuri.Parse(p.DestinationPath, rq.c.srv.home)
	if err != nil {
		rq.fail(err)
		return
	}
	rq.withPath(p.SourcePath, p.Sandbox, func(ctx context.Context, source string) error {
		return fsops.Copy(ctx, source, destination, p, false)
	})
}

func fsWalk(rq *request, p *execproto.WalkParams) {
	rq.withPath(p.Path, p.Sandbox, func(ctx context.Context, path string) error {
		r, err := fsops.Walk(ctx, path, p)
		return rq.answer(r, err)
	})
}
