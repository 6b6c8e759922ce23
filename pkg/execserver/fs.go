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
	"codex.internal/pkg/files"
	"codex.internal/pkg/jsonwire"
	"codex.internal/pkg/pathuri"
	"codex.internal/pkg/permissions"
)

// unconfined refuses a sandbox that would have to be enforced, as confines
// judges. It is never ignored: a client that asks for confinement must not
// run without.
func unconfined(sandbox json.RawMessage, home string, confines func(*permissions.Context) bool) error {
	if sandbox == nil {
		return nil
	}
	ctx, err := permissions.DecodeContext(sandbox, func(text string) (string, error) { return pathuri.Parse(text, home) })
	if err != nil {
		return invalidParams(err.Error())
	}
	if confines(ctx) {
		return invalidParams("sandbox intent cannot be enforced on this executor: this version has no sandbox; send the request without one, or with permissions that need none")
	}
	return nil
}

// path turns the path of a request into a native one, and checks its sandbox.
func (rq *request) path(uri string, sandbox json.RawMessage) (string, error) {
	native, err := pathuri.Parse(uri, rq.c.srv.home)
	if err != nil {
		return "", err
	}
	return native, unconfined(sandbox, rq.c.srv.home, (*permissions.Context).ConfinesFiles)
}

// withPath runs f on the path of a request in the ordinary lane; f's error is
// the answer, nil stands for {}.
func (rq *request) withPath(uri string, sandbox json.RawMessage, f func(ctx context.Context, path string) error) {
	path, err := rq.path(uri, sandbox)
	if err != nil {
		rq.fail(err)
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

func orTrue(b *bool) bool { return b == nil || *b }

func linkOptions(follow *bool) files.Options {
	return files.Options{NoFollow: !orTrue(follow)}
}

func fsReadFile(rq *request, p *execproto.LinkPathParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		f, size, err := files.OpenRegular(path, linkOptions(p.FollowSymlinks))
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
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		data, err := jsonwire.DecodeBase64InPlace(p.DataBase64)
		if err != nil {
			return invalid("fs/writeFile requires valid base64 dataBase64: " + err.Error())
		}
		return files.WriteFile(path, data, linkOptions(p.FollowSymlinks))
	})
}

func fsCreateDirectory(rq *request, p *execproto.CreateDirectoryParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		return files.CreateDirectory(path, orTrue(p.Recursive), linkOptions(p.FollowSymlinks))
	})
}

func fsGetMetadata(rq *request, p *execproto.LinkPathParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		m, err := files.Stat(path, linkOptions(p.FollowSymlinks))
		return rq.answer(execproto.Metadata{
			IsDirectory: m.IsDirectory, IsFile: m.IsFile, IsSymlink: m.IsSymlink, Size: m.Size,
			CreatedAtMS: m.CreatedAtMS, ModifiedAtMS: m.ModifiedAtMS,
		}, err)
	})
}

func fsCanonicalize(rq *request, p *execproto.PathParams) {
	rq.withPath(p.Path, p.Sandbox, func(_ context.Context, path string) error {
		real, err := files.Canonicalize(path)
		return rq.answer(execproto.PathResult{Path: pathuri.Format(real)}, err)
	})
}

func fsReadDirectory(rq *request, p *execproto.PathParams) {
	rq.withPath(p.Path, p.Sandbox, func(ctx context.Context, path string) error {
		found, err := files.ReadDirectory(ctx, path)
		entries := make([]execproto.DirectoryEntry, len(found))
		for i, e := range found {
			entries[i] = execproto.DirectoryEntry{
				FileName: e.Name, IsDirectory: e.IsDirectory, IsFile: e.IsFile, IsLossy: e.IsLossy,
			}
		}
		return rq.answer(execproto.ReadDirectoryResult{Entries: entries}, err)
	})
}

func fsRemove(rq *request, p *execproto.RemoveParams) {
	rq.withPath(p.Path, p.Sandbox, func(ctx context.Context, path string) error {
		return files.Remove(ctx, path, files.RemoveOptions{
			Options:   linkOptions(p.FollowSymlinks),
			Recursive: orTrue(p.Recursive), Force: orTrue(p.Force),
		})
	})
}

func fsCopy(rq *request, p *execproto.CopyParams) {
	destination, err := rq.path(p.DestinationPath, p.Sandbox)
	if err != nil {
		rq.fail(err)
		return
	}
	rq.withPath(p.SourcePath, nil, func(ctx context.Context, source string) error {
		return files.Copy(ctx, source, destination, p.Recursive)
	})
}

func fsWalk(rq *request, p *execproto.WalkParams) {
	rq.withPath(p.Path, p.Sandbox, func(ctx context.Context, path string) error {
		w, err := files.Walk(ctx, path, files.WalkOptions{
			MaxDepth: p.Options.MaxDepth, MaxDirectories: p.Options.MaxDirectories, MaxEntries: p.Options.MaxEntries,
			FollowDirectorySymlinks: p.Options.FollowDirectorySymlinks,
			PruneHiddenDirectories:  p.Options.PruneHiddenDirectories,
		})
		if err != nil {
			return err
		}
		r := execproto.WalkResult{
			Entries:   make([]execproto.WalkEntry, len(w.Entries)),
			Errors:    make([]execproto.WalkError, len(w.Errors)),
			Truncated: w.Truncated,
		}
		for i, e := range w.Entries {
			kind := "file"
			if e.IsDirectory {
				kind = "directory"
			}
			r.Entries[i] = execproto.WalkEntry{Path: pathuri.Format(e.Path), Kind: kind}
		}
		for i, e := range w.Errors {
			r.Errors[i] = execproto.WalkError{Path: pathuri.Format(e.Path), Message: e.Err.Error()}
		}
		return rq.answer(r, nil)
	})
}
