//go:build linux || darwin

// Package fsops carries out the file system requests of the protocol that are one
// call each (docs/spec/wire.md §5.3): it calls package files with the params of
// execproto and returns results of execproto. The server and the file system
// helper share it, so that confined and unconfined requests have the same answers.
//
//	result, err := fsops.GetMetadata(path, p)
//	if err != nil {
//		answer(fsops.Error(err))
//	}
//
// Paths are native, as pathuri.Parse returns them; the functions ignore the paths
// and the sandbox in the params. They are safe for concurrent use. Those that can
// take long stop soon after their context ends.
package fsops

import (
	"context"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/host/files"
	"codex.internal/pkg/wire/jsonwire"
	"codex.internal/pkg/wire/pathuri"
)

func orTrue(b *bool) bool { return b == nil || *b }

// LinkOptions are the options for an operation with that followSymlinks.
func LinkOptions(follow *bool) files.Options {
	return files.Options{NoFollow: !orTrue(follow)}
}

// WriteFile carries out fs/writeFile. It decodes the data in place, so p must not
// be used afterwards. confined is as in files.Options.
func WriteFile(path string, p *execproto.WriteFileParams, confined bool) error {
	data, err := jsonwire.DecodeBase64InPlace(p.DataBase64)
	if err != nil {
		return Invalid("fs/writeFile requires valid base64 dataBase64: " + err.Error())
	}
	o := LinkOptions(p.FollowSymlinks)
	o.Confined = confined
	return files.WriteFile(path, data, o)
}

// CreateDirectory carries out fs/createDirectory.
func CreateDirectory(path string, p *execproto.CreateDirectoryParams) error {
	return files.CreateDirectory(path, orTrue(p.Recursive), LinkOptions(p.FollowSymlinks))
}

// GetMetadata carries out fs/getMetadata.
func GetMetadata(path string, p *execproto.LinkPathParams) (execproto.Metadata, error) {
	m, err := files.Stat(path, LinkOptions(p.FollowSymlinks))
	return execproto.Metadata{
		IsDirectory: m.IsDirectory, IsFile: m.IsFile, IsSymlink: m.IsSymlink, Size: m.Size,
		CreatedAtMS: m.CreatedAtMS, ModifiedAtMS: m.ModifiedAtMS,
	}, err
}

// Canonicalize carries out fs/canonicalize.
func Canonicalize(path string) (execproto.PathResult, error) {
	real, err := files.Canonicalize(path)
	return execproto.PathResult{Path: pathuri.Format(real)}, err
}

// ReadDirectory carries out fs/readDirectory.
func ReadDirectory(ctx context.Context, path string) (execproto.ReadDirectoryResult, error) {
	found, err := files.ReadDirectory(ctx, path)
	entries := make([]execproto.DirectoryEntry, len(found))
	for i, e := range found {
		entries[i] = execproto.DirectoryEntry{
			FileName: e.Name, IsDirectory: e.IsDirectory, IsFile: e.IsFile, IsLossy: e.IsLossy,
		}
	}
	return execproto.ReadDirectoryResult{Entries: entries}, err
}

// Remove carries out fs/remove.
func Remove(ctx context.Context, path string, p *execproto.RemoveParams) error {
	return files.Remove(ctx, path, files.RemoveOptions{
		Options:   LinkOptions(p.FollowSymlinks),
		Recursive: orTrue(p.Recursive), Force: orTrue(p.Force),
	})
}

// Copy carries out fs/copy. Confined is as in files.Options.
func Copy(ctx context.Context, source, destination string, p *execproto.CopyParams, confined bool) error {
	if confined {
		return files.CopyConfined(ctx, source, destination, p.Recursive)
	}
	return files.Copy(ctx, source, destination, p.Recursive)
}

// Walk carries out fs/walk.
func Walk(ctx context.Context, path string, p *execproto.WalkParams) (execproto.WalkResult, error) {
	w, err := files.Walk(ctx, path, files.WalkOptions{
		MaxDepth: p.Options.MaxDepth, MaxDirectories: p.Options.MaxDirectories, MaxEntries: p.Options.MaxEntries,
		FollowDirectorySymlinks: p.Options.FollowDirectorySymlinks,
		PruneHiddenDirectories:  p.Options.PruneHiddenDirectories,
	})
	if err != nil {
		return execproto.WalkResult{}, err
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
	return r, nil
}
