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

// fileParams is the decoded params of a file system request, and what a confined
// helper gets in place of them.
type fileParams[P any] struct {
	params P
	confinedCall
}

// confinedCall is a file system request as a helper gets it.
type confinedCall struct {
	method string
	json   []byte // the text of the params; lies in the request's message
}

// keepJSON returns a decoder that keeps the text of the params.
func keepJSON[P any](method string, decode func([]byte) (P, error)) func([]byte) (fileParams[P], error) {
	return func(json []byte) (fileParams[P], error) {
		p, err := decode(json)
		return fileParams[P]{p, confinedCall{method, json}}, err
	}
}

// filePath returns the row of a file system method without a handle.
func filePath[P any](
	method string, decode func([]byte) (P, error), handle func(ctx context.Context, c *conn, p *P, call confinedCall) (result, error),
) row {
	return plain(familyFilesystem, laneOrdinary, keepJSON(method, decode),
		func(ctx context.Context, c *conn, p *fileParams[P]) (result, error) {
			return handle(ctx, c, &p.params, p.confinedCall)
		})
}

// withPath returns the result of f for the native path of a request. If the
// request must be confined, a helper carries it out and f is not called.
func (c *conn) withPath(
	ctx context.Context, call confinedCall, uri string, sandbox json.RawMessage, f func(path string) (result, error),
) (result, error) {
	path, err := pathuri.Parse(uri, c.srv.home)
	if err != nil {
		return nil, err
	}
	intent, err := c.srv.fileIntent(sandbox)
	if err != nil {
		return nil, err
	}
	if intent != nil {
		return c.srv.confinedResult(ctx, intent, call)
	}
	return f(path)
}

func fsReadFile(ctx context.Context, c *conn, p *execproto.LinkPathParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) {
		f, size, err := files.OpenRegular(path, fsops.LinkOptions(p.FollowSymlinks))
		if err != nil {
			return nil, err
		}
		if size > inlineBody {
			return c.srv.streamFile(f, size)
		}
		defer f.Close()
		data, err := readSmall(f, size)
		switch {
		case err != nil:
			return nil, err
		case len(data) > inlineBody:
			return fileData(bytesSource(data)), nil
		default:
			return execproto.ReadFileResult{DataBase64: data}, nil
		}
	})
}

// fileData is the result of fs/readFile with data that is sent in parts.
func fileData(data source) large { return large{`{"dataBase64":"`, data, `"}`} }

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

// streamFile returns a large file as the result of fs/readFile, and closes it
// later. Up to wholeFile bytes are read before the answer begins, so that a read
// error is the answer to the request. A read error after that closes the
// connection.
func (srv *Server) streamFile(f *os.File, size int64) (result, error) {
	if size >= releaseAbove {
		srv.memory.used()
	}
	held, err := readChunks(f, min(size, wholeFile))
	end := func() {
		held.free()
		_ = f.Close()
	}
	if err != nil {
		end()
		return nil, err
	}
	// Bytes that are appended after the file was opened, as to a log, are left out.
	rest := io.LimitReader(f, size-held.size)
	data := func(buf []byte) ([]byte, error) {
		if piece, ok := held.next(); ok {
			if held.left() || size > wholeFile {
				return piece, nil
			}
			return piece, io.EOF
		}
		n, err := io.ReadFull(rest, buf)
		return buf[:n], endOfFile(err)
	}
	return followed{fileData(data), end}, nil
}

// endOfFile returns io.EOF for both errors with which io.ReadFull reports the
// end of the input.
func endOfFile(err error) error {
	if errors.Is(err, io.ErrUnexpectedEOF) {
		return io.EOF
	}
	return err
}

func fsWriteFile(ctx context.Context, c *conn, p *execproto.WriteFileParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return done{}, fsops.WriteFile(path, p, false) })
}

func fsCreateDirectory(ctx context.Context, c *conn, p *execproto.CreateDirectoryParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return done{}, fsops.CreateDirectory(path, p) })
}

func fsGetMetadata(ctx context.Context, c *conn, p *execproto.LinkPathParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return fsops.GetMetadata(path, p) })
}

func fsCanonicalize(ctx context.Context, c *conn, p *execproto.PathParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return fsops.Canonicalize(path) })
}

func fsReadDirectory(ctx context.Context, c *conn, p *execproto.PathParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return fsops.ReadDirectory(ctx, path) })
}

func fsRemove(ctx context.Context, c *conn, p *execproto.RemoveParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return done{}, fsops.Remove(ctx, path, p) })
}

func fsCopy(ctx context.Context, c *conn, p *execproto.CopyParams, call confinedCall) (result, error) {
	destination, err := pathuri.Parse(p.DestinationPath, c.srv.home)
	if err != nil {
		return nil, err
	}
	return c.withPath(ctx, call, p.SourcePath, p.Sandbox, func(source string) (result, error) {
		return done{}, fsops.Copy(ctx, source, destination, p, false)
	})
}

func fsWalk(ctx context.Context, c *conn, p *execproto.WalkParams, call confinedCall) (result, error) {
	return c.withPath(ctx, call, p.Path, p.Sandbox, func(path string) (result, error) { return fsops.Walk(ctx, path, p) })
}
