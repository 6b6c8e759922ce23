package execclient

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"strings"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/wire/pathuri"
)

// Walk lists everything below a directory by fs/walk, breadth first and sorted by name in each
// directory: directories and regular files, and with FollowDirectorySymlinks links to
// directories. No directory is entered twice. A MaxDepth of 0 lists the directory alone. The
// limits on directories and entries count everything that is examined, and must not be 0. If
// one is reached, Truncated is set. Directories that cannot be listed are in Errors.
//
// For old servers without fs/walk, each directory is listed and each entry queried. Servers
// without Attributes fail with ErrUnsupported if o has it.
func (f *FS) Walk(ctx context.Context, root string, o execproto.WalkOptions) (execproto.WalkResult, error) {
	if o.Attributes && !f.HasEntryAttributes() {
		return execproto.WalkResult{}, pathError("walk", root, errNoEntryAttributes)
	}
	var r execproto.WalkResult
	params := execproto.WalkParams{Path: pathOf(root), Options: o, Sandbox: f.sandbox}
	err := f.call(ctx, "walk", root, execproto.MethodFSWalk, &params, &r)
	if IsCode(err, execproto.CodeMethodNotFound) {
		return f.walkByReadDir(ctx, root, o)
	}
	return r, err
}

func (f *FS) walkByReadDir(ctx context.Context, root string, o execproto.WalkOptions) (execproto.WalkResult, error) {
	if o.MaxDirectories == 0 || o.MaxEntries == 0 {
		return execproto.WalkResult{}, pathError("walk", root, &fileError{errors.New("filesystem walk limits must be greater than zero"), []error{fs.ErrInvalid}})
	}
	w := walk{f: f, options: o, seen: make(map[string]bool)}
	return w.run(ctx, pathOf(root))
}

// Kinds of entries of a walk.
const (
	kindDirectory = "directory"
	kindFile      = "file"
)

// walk implements fs/walk by simpler requests.
type walk struct {
	f       *FS
	options execproto.WalkOptions
	result  execproto.WalkResult
	seen    map[string]bool // directories by their paths without links, if links are followed
	queue   []walkDir
	dirs    uint64 // directories that were entered
	looked  uint64 // all examined entries
}

// walkDir is a directory to be listed.
type walkDir struct {
	uri   string
	depth uint64
}

func (w *walk) run(ctx context.Context, root string) (execproto.WalkResult, error) {
	m, err := w.f.Stat(ctx, root)
	if err != nil || !m.IsDirectory || m.IsSymlink && !w.options.FollowDirectorySymlinks {
		return w.result, err
	}
	w.queue = []walkDir{{root, 0}}
	for len(w.queue) > 0 && !w.result.Truncated {
		dir := w.queue[0]
		w.queue = w.queue[1:]
		if !w.first(ctx, dir.uri) {
			continue
		}
		if w.dirs == w.options.MaxDirectories {
			w.result.Truncated = true
			break
		}
		w.dirs++
		entries, err := w.f.ReadDir(ctx, dir.uri)
		if err == nil {
			err = w.list(ctx, dir, entries)
		}
		var refused *ServerError
		switch {
		case IsCode(err, execproto.CodeNotFound): // the entry was removed
		case errors.As(err, &refused):
			w.result.Errors = append(w.result.Errors, execproto.WalkError{Path: dir.uri, Message: refused.Message})
		case err != nil:
			return w.result, err
		}
	}
	return w.result, nil
}

// list adds the entries of a directory. An entry that was removed or cannot be examined is
// skipped.
func (w *walk) list(ctx context.Context, dir walkDir, entries []execproto.DirectoryEntry) error {
	for _, e := range entries {
		uri := JoinPath(dir.uri, e.FileName)
		m, err := w.f.Stat(ctx, uri)
		var refused *ServerError
		switch {
		case errors.As(err, &refused):
			continue
		case err != nil:
			return err
		case w.looked == w.options.MaxEntries:
			w.result.Truncated = true
			return nil
		}
		w.looked++
		switch {
		case m.IsSymlink && !(m.IsDirectory && w.options.FollowDirectorySymlinks):
		case m.IsFile:
			w.result.Entries = append(w.result.Entries, execproto.WalkEntry{Path: uri, Kind: kindFile})
		case m.IsDirectory:
			w.result.Entries = append(w.result.Entries, execproto.WalkEntry{Path: uri, Kind: kindDirectory})
			hidden := w.options.PruneHiddenDirectories && strings.HasPrefix(e.FileName, ".")
			if dir.depth < w.options.MaxDepth && !hidden {
				w.queue = append(w.queue, walkDir{uri, dir.depth + 1})
			}
		}
	}
	return nil
}

// first reports whether a directory was not visited yet under another name, which is only
// possible if links are followed.
func (w *walk) first(ctx context.Context, uri string) bool {
	if !w.options.FollowDirectorySymlinks {
		return true
	}
	real, err := w.f.Canonicalize(ctx, uri)
	if err != nil || w.seen[real] {
		return false
	}
	w.seen[real] = true
	return true
}

// JoinPath appends a name, or several separated by slashes, to a directory. The directory is
// an absolute path of the server or a `file:` URI, and the result is of the same kind.
func JoinPath(dir, name string) string {
	below := path.Join("/", name)
	switch {
	case !strings.HasPrefix(dir, "file:"):
		return path.Join(dir, below)
	case below == "/":
		return dir
	default:
		return strings.TrimSuffix(dir, "/") + strings.TrimPrefix(pathuri.Format(below), "file://")
	}
}
