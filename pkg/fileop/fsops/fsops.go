// Package fsops carries out the file system requests of the protocol
// (docs/spec/wire.md §5): it calls package files with the params of execproto and
// returns results of execproto. The server and the helper codex-fs use the same
// table, so that confined and unconfined requests have the same answers.
//
//	operation := fsops.Find(method)
//	call, err := operation.Decode(params)
//	if err == nil {
//		err = call.Resolve(home)
//	}
//	if err == nil {
//		result, err = call.Run(ctx, false)
//	}
//	if err != nil {
//		answer(fsops.Error(err))
//	}
//
// Calls are independent of each other and may run at the same time.
package fsops

import (
	"context"
	"encoding/json"
	"errors"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/skills"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/pathuri"
)

// onPath is a call about one path that returns a value.
func onPath[R Appender](path string, sandbox json.RawMessage, f func(ctx context.Context, path string) (R, error)) Call {
	return Call{Sandbox: sandbox, paths: []string{path}, run: func(ctx context.Context, paths []string, _ bool) (Result, error) {
		r, err := f(ctx, paths[0])
		return Result{Value: r}, err
	}}
}

func orTrue(b *bool) bool { return b == nil || *b }

// linkOptions returns the options of an operation with the given followSymlinks.
func linkOptions(follow *bool) files.Options {
	return files.Options{NoFollow: !orTrue(follow)}
}

func readFile(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.LinkPathParams](params)
	return Call{Sandbox: p.Sandbox, paths: []string{p.Path}, run: func(_ context.Context, paths []string, _ bool) (Result, error) {
		c, err := openContent(paths[0], linkOptions(p.FollowSymlinks))
		return Result{Content: c}, err
	}}, err
}

func writeFile(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.WriteFileParams](params)
	return Call{Sandbox: p.Sandbox, paths: []string{p.Path}, run: func(_ context.Context, paths []string, confined bool) (Result, error) {
		data, err := b64.DecodeInPlace(p.DataBase64)
		if err != nil {
			return Result{}, Invalid("fs/writeFile requires valid base64 dataBase64: " + err.Error())
		}
		o := linkOptions(p.FollowSymlinks)
		o.Confined = confined
		if p.Atomic {
			return Result{Value: execproto.Empty{}}, replaceFile(paths[0], data, files.WriteOptions{Options: o, Atomic: true, Permissions: p.Permissions})
		}
		if p.Permissions != nil {
			return Result{}, errPermissionsAlone
		}
		return Result{Value: execproto.Empty{}}, files.WriteFile(paths[0], data, o)
	}}, err
}

var errPermissionsAlone = Invalid("fs/writeFile accepts permissions only together with atomic: true")

// replaceFile writes a file by replacing it in one step.
func replaceFile(path string, data []byte, o files.WriteOptions) error {
	f, err := files.OpenWrite(path, o)
	if err != nil {
		return err
	}
	if err := f.WriteAt(data, 0); err != nil {
		_ = f.Abort()
		return err
	}
	return f.Close()
}

func createDirectory(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.CreateDirectoryParams](params)
	return onPath(p.Path, p.Sandbox, func(_ context.Context, path string) (execproto.Empty, error) {
		permissions := uint32(files.MaxPermissions)
		if p.Permissions != nil {
			permissions = *p.Permissions
		}
		return execproto.Empty{}, files.CreateDirectoryWith(path, permissions, orTrue(p.Recursive), linkOptions(p.FollowSymlinks))
	}), err
}

func getMetadata(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.LinkPathParams](params)
	return onPath(p.Path, p.Sandbox, func(_ context.Context, path string) (execproto.Metadata, error) {
		m, err := files.Stat(path, linkOptions(p.FollowSymlinks))
		return execproto.Metadata{
			IsDirectory: m.IsDirectory, IsFile: m.IsFile, IsSymlink: m.IsSymlink, Size: m.Size,
			CreatedAtMS: m.CreatedAtMS, ModifiedAtMS: m.ModifiedAtMS,
		}, err
	}), err
}

func canonicalize(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.PathParams](params)
	return onPath(p.Path, p.Sandbox, func(_ context.Context, path string) (execproto.PathResult, error) {
		real, err := files.Canonicalize(path)
		return execproto.PathResult{Path: pathuri.Format(real)}, err
	}), err
}

func readDirectory(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.ReadDirectoryParams](params)
	return onPath(p.Path, p.Sandbox, func(ctx context.Context, path string) (execproto.ReadDirectoryResult, error) {
		found, err := files.ReadDirectory(ctx, path, p.Attributes)
		entries := make([]execproto.DirectoryEntry, len(found))
		for i, e := range found {
			entries[i] = execproto.DirectoryEntry{
				FileName: e.Name, IsDirectory: e.IsDirectory, IsFile: e.IsFile, IsLossy: e.IsLossy,
				Attributes: (*execproto.Attributes)(e.Attributes),
			}
		}
		return execproto.ReadDirectoryResult{Entries: entries}, err
	}), err
}

func remove(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.RemoveParams](params)
	return onPath(p.Path, p.Sandbox, func(ctx context.Context, path string) (execproto.Empty, error) {
		return execproto.Empty{}, files.Remove(ctx, path, files.RemoveOptions{
			Options:   linkOptions(p.FollowSymlinks),
			Recursive: orTrue(p.Recursive), Link: p.RemoveLink, Force: orTrue(p.Force),
		})
	}), err
}

func copyPath(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.CopyParams](params)
	paths := []string{p.SourcePath, p.DestinationPath}
	return Call{Sandbox: p.Sandbox, paths: paths, run: func(ctx context.Context, paths []string, confined bool) (Result, error) {
		copyAll := files.Copy
		if confined {
			copyAll = files.CopyConfined
		}
		return copied(copyAll(ctx, paths[0], paths[1], p.Recursive))
	}}, err
}

// copied returns the answer to an fs/copy that has returned err. If everything except special
// files was copied, the answer is a success that names those files (docs/spec/wire.md §5.6).
func copied(err error) (Result, error) {
	left, ok := errors.AsType[*files.LeftOutError](err)
	if !ok {
		return Result{Value: execproto.CopyResult{}}, err
	}
	uris := make([]string, len(left.Paths))
	for i, path := range left.Paths {
		uris[i] = pathuri.Format(path)
	}
	return Result{Value: execproto.CopyResult{LeftOut: &execproto.LeftOut{Count: left.Count, Paths: uris}}}, nil
}

func rename(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.RenameParams](params)
	paths := []string{p.SourcePath, p.DestinationPath}
	return Call{Sandbox: p.Sandbox, paths: paths, run: func(_ context.Context, paths []string, _ bool) (Result, error) {
		return Result{Value: execproto.Empty{}}, files.Rename(paths[0], paths[1], p.Overwrite)
	}}, err
}

func getAttributes(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.PathParams](params)
	return onPath(p.Path, p.Sandbox, func(_ context.Context, path string) (execproto.Attributes, error) {
		a, err := files.GetAttributes(path)
		return execproto.Attributes(a), err
	}), err
}

func listAttributes(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.PathParams](params)
	return onPath(p.Path, p.Sandbox, func(ctx context.Context, path string) (execproto.ListAttributesResult, error) {
		found, err := files.ListAttributes(ctx, path)
		entries := make([]execproto.NamedAttributes, len(found))
		for i, e := range found {
			entries[i] = execproto.NamedAttributes{FileName: e.Name, IsLossy: e.IsLossy, Attributes: execproto.Attributes(e.Attributes)}
		}
		return execproto.ListAttributesResult{Entries: entries}, err
	}), err
}

func setAttributes(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.SetAttributesParams](params)
	return onPath(p.Path, p.Sandbox, func(_ context.Context, path string) (execproto.Empty, error) {
		return execproto.Empty{}, files.SetAttributes(path,
			files.Changes{Permissions: p.Permissions, ModifiedAtMS: p.ModifiedAtMS}, linkOptions(p.FollowSymlinks))
	}), err
}

func symlink(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.SymlinkParams](params)
	return onPath(p.Path, p.Sandbox, func(_ context.Context, path string) (execproto.Empty, error) {
		return execproto.Empty{}, files.Symlink(p.Target, path, p.Overwrite, linkOptions(p.FollowSymlinks))
	}), err
}

func walk(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.WalkParams](params)
	return onPath(p.Path, p.Sandbox, func(ctx context.Context, path string) (execproto.WalkResult, error) {
		w, err := files.Walk(ctx, path, files.WalkOptions{
			MaxDepth: p.Options.MaxDepth, MaxDirectories: p.Options.MaxDirectories, MaxEntries: p.Options.MaxEntries,
			FollowDirectorySymlinks: p.Options.FollowDirectorySymlinks,
			PruneHiddenDirectories:  p.Options.PruneHiddenDirectories,
			Attributes:              p.Options.Attributes,
		})
		if err != nil {
			return execproto.WalkResult{}, err
		}
		return walkResult(w), nil
	}), err
}

func walkResult(w files.WalkResult) execproto.WalkResult {
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
		r.Entries[i] = execproto.WalkEntry{Path: pathuri.Format(e.Path), Kind: kind, Attributes: (*execproto.Attributes)(e.Attributes)}
	}
	for i, e := range w.Errors {
		r.Errors[i] = execproto.WalkError{Path: pathuri.Format(e.Path), Message: e.Err.Error()}
	}
	return r
}

// discoverRoots decodes a request whose roots all have the sandbox of the call. The params do
// not have that sandbox.
func discoverRoots(params []byte) (Call, error) {
	p, err := execproto.Decode[execproto.DiscoverParams](params)
	paths := make([]string, len(p.Roots))
	for i, r := range p.Roots {
		paths[i] = r.Path
	}
	return Call{paths: paths, run: func(ctx context.Context, paths []string, _ bool) (Result, error) {
		roots := make([]skills.Root, len(paths))
		for i, native := range paths {
			roots[i] = skills.Root{ID: p.Roots[i].ID, URI: p.Roots[i].Path, Path: native}
		}
		found, err := skills.Discover(ctx, roots)
		return Result{Value: execproto.DiscoverResult{Roots: found}}, err
	}}, err
}
