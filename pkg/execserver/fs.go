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

// withPath runs f on the path of a request in the ordinary lane; f's error is
// the answer, nil stands for {}. A request that has to be confined is handed
// to a helper instead.
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

// errAnswered is what a function for withPath returns after it answered.
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

// readSmall reads a file whole whose size says that it is small. Files of
// /proc say 0 and are not, and a log grows meanwhile.
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

// streamFile answers with a large file. What can be held is read before the
// answer begins, so that an error of the file is still an error of the
// request; the answer to a larger file begins with that part.
func (rq *request) streamFile(f *os.File, size int64) error {
	if size >= releaseAbove {
		rq.c.srv.memory.used()
	}
	held, err := readChunks(f, min(size, wholeFile))
	defer held.free()
	if err != nil {
		return err
	}
	// The file ends where it ended when it was opened: it may be a log.
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

// endOfFile makes io.EOF of both ends that io.ReadFull knows.
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
