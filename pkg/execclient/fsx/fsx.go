// Package fsx makes an fs.FS of a directory of a server, for everything that takes one:
// fs.WalkDir, fs.Glob, http.FileServerFS, text/template, testing.
//
//	tree := fsx.New(ctx, client.FS(), "/srv/project")
//	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error { ... })
//
// Files are read in blocks on demand, and are io.Seeker, io.ReaderAt and io.WriterTo. Errors
// are those of execclient.FS, with the names of fs.FS.
//
// The protocol has no permissions, so directories have the mode 0755 and other files 0644.
// Links are followed, and listed as links. They may lead out of the directory: to prevent
// that, use a file system with a sandbox, or a directory whose contents you trust.
package fsx

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
)

// statsInFlight is how many entries of a directory are queried at a time: a small share of a
// server's capacity.
const statsInFlight = 16

// FS is a directory of a server. It is an fs.FS, fs.StatFS, fs.ReadDirFS,
// fs.ReadFileFS and fs.SubFS. Its methods may be called from any goroutine.
type FS struct {
	ctx  context.Context
	fs   *execclient.FS
	root string
}

// New returns the directory root, an absolute path of the server or a `file:` URI. ctx applies
// to all operations of the result, because the methods of fs.FS take none.
func New(ctx context.Context, files *execclient.FS, root string) *FS {
	return &FS{ctx, files, root}
}

// at returns the path on the server of a valid name.
func (f *FS) at(op, name string) (string, error) {
	if !fs.ValidPath(name) {
		return "", &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	return execclient.JoinPath(f.root, name), nil
}

// named replaces the path in an error by the name for fs.FS.
func named(op, name string, err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		err = p.Err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// Stat describes the target of a name.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name) }

func (f *FS) stat(op, name string) (info, error) {
	at, err := f.at(op, name)
	if err != nil {
		return info{}, err
	}
	m, err := f.fs.Stat(f.ctx, at)
	if err != nil {
		return info{}, named(op, name, err)
	}
	m.IsSymlink = false // the metadata is the target's
	return info{path.Base(name), m}, nil
}

// ReadFile reads a file into memory.
func (f *FS) ReadFile(name string) ([]byte, error) {
	at, err := f.at("readfile", name)
	if err != nil {
		return nil, err
	}
	data, err := f.fs.ReadFile(f.ctx, at)
	if err != nil {
		return nil, named("readfile", name, err)
	}
	return data, nil
}

// Sub returns a directory below this one.
func (f *FS) Sub(dir string) (fs.FS, error) {
	at, err := f.at("sub", dir)
	if err != nil {
		return nil, err
	}
	return &FS{f.ctx, f.fs, at}, nil
}

// ReadDir lists a directory, sorted by name. Names that are not UTF-8 are invalid in an fs.FS:
// they are left out, and an error is returned beside the other entries.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	at, err := f.at("readdir", name)
	if err != nil {
		return nil, err
	}
	found, plain, err := f.list(at)
	if err != nil {
		return nil, named("readdir", name, err)
	}
	entries := make([]*entry, 0, len(found))
	var odd error
	for _, d := range found {
		if d.IsLossy || !fs.ValidPath(d.FileName) || d.FileName == "." || strings.Contains(d.FileName, "/") {
			odd = named("readdir", name, errNoName)
			continue
		}
		kind := execproto.Metadata{IsDirectory: d.IsDirectory, IsFile: d.IsFile}
		entries = append(entries, &entry{
			f: f, at: execclient.JoinPath(at, d.FileName), name: d.FileName, meta: kind, known: plain[d.FileName] == kindOf(kind),
		})
	}
	if err := f.look(entries); err != nil {
		return nil, named("readdir", name, err)
	}
	slices.SortFunc(entries, func(a, b *entry) int { return strings.Compare(a.name, b.name) })
	list := make([]fs.DirEntry, len(entries))
	for i, e := range entries {
		list[i] = e
	}
	return list, odd
}

var errNoName = errors.New("a name in the directory is not valid in an fs.FS")

// The kinds of entries of fs/walk.
const (
	directory = "directory"
	file      = "file"
)

func kindOf(m execproto.Metadata) string {
	switch {
	case m.IsDirectory:
		return directory
	case m.IsFile:
		return file
	default:
		return "other"
	}
}

// walkLimit is the number of entries that a walk asks for, the most that servers allow.
// Further entries of a directory are queried one by one.
const walkLimit = 50_000

// list lists a directory. At the same time it asks which entries are not links.
func (f *FS) list(at string) (found []execproto.DirectoryEntry, plain map[string]string, err error) {
	var listing sync.WaitGroup
	var foundErr error
	listing.Go(func() { found, foundErr = f.fs.ReadDir(f.ctx, at) })
	plain, err = f.plain(at)
	listing.Wait()
	if foundErr != nil {
		err = foundErr
	}
	return found, plain, err
}

// plain returns the kinds of a directory's entries that are not links, with one request: a
// walk over its children lists only those.
func (f *FS) plain(at string) (map[string]string, error) {
	r, err := f.fs.Walk(f.ctx, at, execproto.WalkOptions{MaxDirectories: 1, MaxEntries: walkLimit})
	if err != nil {
		return nil, err
	}
	kinds := make(map[string]string, len(r.Entries))
	for _, e := range r.Entries {
		if name, ok := lastName(e.Path); ok {
			kinds[name] = e.Kind
		}
	}
	return kinds, nil
}

// look queries the entries that may be links. They must be recognized, because walks could
// otherwise run in circles.
func (f *FS) look(entries []*entry) error {
	ctx, cancel := context.WithCancelCause(f.ctx)
	defer cancel(nil)
	var looking sync.WaitGroup
	slots := make(chan struct{}, statsInFlight)
	for _, e := range entries {
		if e.known {
			continue
		}
		slots <- struct{}{}
		looking.Go(func() {
			defer func() { <-slots }()
			if err := e.look(ctx); err != nil {
				cancel(err)
			}
		})
	}
	looking.Wait()
	return context.Cause(ctx)
}

// entry is an fs.DirEntry.
type entry struct {
	f     *FS
	at    string
	name  string
	meta  execproto.Metadata
	known bool // the kind in meta is right
}

// look determines whether the entry is a link. An entry that cannot be queried counts as a
// link that leads nowhere.
func (e *entry) look(ctx context.Context) error {
	m, err := e.f.fs.Stat(ctx, e.at)
	var refused *execclient.ServerError
	switch {
	case errors.As(err, &refused):
		e.meta.IsSymlink = true
	case err != nil:
		return err
	default:
		e.meta.IsSymlink = m.IsSymlink
	}
	e.known = true
	return nil
}

func (e *entry) Name() string      { return e.name }
func (e *entry) IsDir() bool       { return e.Type().IsDir() }
func (e *entry) Type() fs.FileMode { return info{meta: e.meta}.Mode().Type() }
func (e *entry) String() string    { return fs.FormatDirEntry(e) }

// Info queries the server. The size and time of a link are its target's.
func (e *entry) Info() (fs.FileInfo, error) {
	m, err := e.f.fs.Stat(e.f.ctx, e.at)
	switch {
	case errors.Is(err, fs.ErrNotExist) && e.meta.IsSymlink:
		m = e.meta // the link leads nowhere
	case err != nil:
		return nil, named("stat", e.name, err)
	}
	return info{e.name, m}, nil
}

// info is an fs.FileInfo.
type info struct {
	name string
	meta execproto.Metadata
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(i.meta.Size) }
func (i info) ModTime() time.Time { return time.UnixMilli(i.meta.ModifiedAtMS) }
func (i info) IsDir() bool        { return i.Mode().IsDir() }
func (i info) Sys() any           { return i.meta }
func (i info) String() string     { return fs.FormatFileInfo(i) }

// Mode returns the kind, which is all that the protocol has.
func (i info) Mode() fs.FileMode {
	switch {
	case i.meta.IsSymlink:
		return fs.ModeSymlink | 0o777
	case i.meta.IsDirectory:
		return fs.ModeDir | 0o755
	case i.meta.IsFile:
		return 0o644
	default:
		return fs.ModeIrregular | 0o644
	}
}

// Open opens a file or a directory.
func (f *FS) Open(name string) (fs.File, error) {
	i, err := f.stat("open", name)
	if err != nil {
		return nil, err
	}
	if i.IsDir() {
		return &openDir{f: f, name: name, info: i}, nil
	}
	opened, err := f.fs.Open(f.ctx, execclient.JoinPath(f.root, name))
	if errors.Is(err, execclient.ErrUnsupported) {
		return f.openWhole(name, i)
	}
	if err != nil {
		return nil, named("open", name, err)
	}
	return &openFile{opened, name, i}, nil
}

var (
	_ fs.StatFS     = (*FS)(nil)
	_ fs.ReadDirFS  = (*FS)(nil)
	_ fs.ReadFileFS = (*FS)(nil)
	_ fs.SubFS      = (*FS)(nil)
	_ io.Seeker     = (*openFile)(nil)
	_ io.ReaderAt   = (*openFile)(nil)
	_ io.WriterTo   = (*openFile)(nil)
)
