//go:build linux

package codexfs

import (
	"context"
	"errors"
	"io"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/fsops"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/pathuri"
)

// do carries out an operation that is not about a handle and answers. It returns
// an error if the params are malformed; an error of the operation is the answer.
func (s *session) do(operation string, params []byte) error {
	ctx := context.Background()
	switch operation {
	case execproto.MethodFSReadFile:
		return decoded(params, execproto.DecodeLinkPath, func(p *execproto.LinkPathParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				return s.readFile(path, fsops.LinkOptions(p.FollowSymlinks))
			})
		})
	case execproto.MethodFSWriteFile:
		return decoded(params, execproto.DecodeWriteFile, func(p *execproto.WriteFileParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				return s.finish(operation, fsops.WriteFile(path, p, true))
			})
		})
	case execproto.MethodFSCreateDirectory:
		return decoded(params, execproto.DecodeCreateDirectory, func(p *execproto.CreateDirectoryParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				return s.finish(operation, fsops.CreateDirectory(path, p))
			})
		})
	case execproto.MethodFSGetMetadata:
		return decoded(params, execproto.DecodeLinkPath, func(p *execproto.LinkPathParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				r, err := fsops.GetMetadata(path, p)
				return s.answer(operation, r, err)
			})
		})
	case execproto.MethodFSCanonicalize:
		return decoded(params, execproto.DecodePath, func(p *execproto.PathParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				r, err := fsops.Canonicalize(path)
				return s.answer(operation, r, err)
			})
		})
	case execproto.MethodFSReadDirectory:
		return decoded(params, execproto.DecodePath, func(p *execproto.PathParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				r, err := fsops.ReadDirectory(ctx, path)
				return s.answer(operation, r, err)
			})
		})
	case execproto.MethodFSRemove:
		return decoded(params, execproto.DecodeRemove, func(p *execproto.RemoveParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				return s.finish(operation, fsops.Remove(ctx, path, p))
			})
		})
	case execproto.MethodFSCopy:
		return decoded(params, execproto.DecodeCopy, func(p *execproto.CopyParams) error {
			destination, err := pathuri.Parse(p.DestinationPath, "")
			if err != nil {
				return s.fail(err)
			}
			return onPath(s, p.SourcePath, p.Sandbox, func(source string) error {
				return s.finish(operation, fsops.Copy(ctx, source, destination, p, true))
			})
		})
	case execproto.MethodFSWalk:
		return decoded(params, execproto.DecodeWalk, func(p *execproto.WalkParams) error {
			return onPath(s, p.Path, p.Sandbox, func(path string) error {
				r, err := fsops.Walk(ctx, path, p)
				return s.answer(operation, r, err)
			})
		})
	default:
		return unknownOperation(operation)
	}
}

// decoded runs f on the params.
func decoded[P any](params []byte, decode func([]byte) (P, error), f func(*P) error) error {
	p, err := decode(params)
	if err != nil {
		return err
	}
	return f(&p)
}

// errSandbox is the error for params with a sandbox: the launcher has confined the
// helper already.
var errSandbox = errors.New("sandbox: must be null or absent")

// onPath runs f on the native path of a request.
func onPath(s *session, uri string, sandbox []byte, f func(path string) error) error {
	if sandbox != nil {
		return errSandbox
	}
	path, err := pathuri.Parse(uri, "") // the helper knows no home
	if err != nil {
		return s.fail(err)
	}
	return f(path)
}

// readFile answers with a file, which it encodes and sends as it reads it. The
// answer begins when the first part was read, so an earlier read error is the
// answer. After a later one the answer is incomplete, and readFile returns it.
func (s *session) readFile(path string, o files.Options) error {
	f, size, err := files.OpenRegular(path, o)
	if err != nil {
		return s.fail(err)
	}
	defer f.Close()
	left := size
	if size <= readAll {
		left = files.MaxReadFile + 1 // a virtual file, or a growing one
	}
	chunk := make([]byte, fileChunk)
	for begun := false; left > 0; {
		n, err := io.ReadFull(f, chunk[:min(left, fileChunk)])
		left -= int64(n)
		whole := err == io.EOF || err == io.ErrUnexpectedEOF
		if !begun && (err == nil || whole) {
			begun = true
			s.out.begin(execproto.MethodFSReadFile, int(max(size, int64(n)))/3*4)
			s.out.text(`{"dataBase64":"`)
		}
		switch {
		case !begun:
			return s.fail(err)
		case err != nil && !whole:
			return err
		case left == 0 && size <= readAll:
			return files.ErrTooLarge
		}
		if s.out.base64(chunk[:n]); whole {
			break
		}
	}
	s.out.text(`"}`)
	return s.out.end()
}
