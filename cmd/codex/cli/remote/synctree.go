package remote

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/dirfd"
	"codex.internal/pkg/wire/pattern"
)

// localTree is a directory here. One that does not exist, and is not made because nothing
// is to be changed, has no path.
type localTree struct {
	*copying
	path string
}

func (t *localTree) shown(below string) string {
	return filepath.Join(t.path, filepath.FromSlash(below))
}

func (t *localTree) list(o listOptions, each func(e *archive.Entry)) error {
	if t.path == "" {
		return nil
	}
	d, err := dirfd.Open(t.path)
	if err != nil {
		return err
	}
	p := archive.NewPacker(d, archive.PackOptions{Context: t.ctx, Exclude: t.options.exclude, Paths: o.paths, List: true, Sums: o.checksums, Times: true})
	defer p.Close()
	return archive.List(p, each)
}

// read reads a file without following links: it could be another one than that of the list.
func (t *localTree) read(below string) (string, error) {
	d, err := dirfd.Open(t.path)
	if err != nil {
		return "", err
	}
	defer func() { _ = d.Close() }()
	folder, name := path.Split(below)
	for part := range strings.SplitSeq(strings.TrimSuffix(folder, "/"), "/") {
		if part == "" {
			continue
		}
		in, err := d.Enter(part)
		if err != nil {
			return "", err
		}
		_ = d.Close()
		d = in
	}
	f, _, err := d.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnoreFile+1))
	if err == nil && len(text) > maxIgnoreFile {
		err = errIgnoreFile
	}
	return string(text), err
}

func (t *localTree) remove(doomed []*archive.Entry, whole bool) {
	if len(doomed) == 0 {
		return
	}
	root, err := os.OpenRoot(t.path)
	if err != nil {
		t.report(t.path, err)
		return
	}
	defer root.Close()
	for _, e := range slices.Backward(doomed) {
		name := filepath.FromSlash(e.Path)
		if whole {
			err = root.RemoveAll(name)
		} else {
			err = root.Remove(name)
		}
		if err == nil || errors.Is(err, fs.ErrNotExist) {
			continue
		}
		// A directory may have something in it that is left out.
		if in, errIn := fs.ReadDir(root.FS(), e.Path); e.Type != archive.Directory || errIn != nil || len(in) == 0 {
			t.report(t.shown(e.Path), err)
		}
	}
}

// take copies from the server, as many entries at a time as one archive may name, and
// nothing that the server sends besides.
func (t *localTree) take(from tree, paths []string) error {
	server := from.(*serverTree)
	paths = slices.DeleteFunc(paths, func(below string) bool {
		if utf8.ValidString(below) {
			return false
		}
		t.report(from.shown(below), errors.New("not copied: the name is not UTF-8; copy it with codex remote cp -r"))
		return true
	})
	into, err := dirfd.Open(t.path)
	if err != nil {
		return err
	}
	asked := make(map[string]bool)
	o := t.unpacking(server.uri)
	o.Wanted = func(below string, isDirectory bool) bool {
		return asked[below] && !t.options.leavesOut(below, isDirectory)
	}
	u := archive.NewUnpacker(into, false, o)
	defer u.Abort()
	for some := range slices.Chunk(paths, syncPaths) {
		clear(asked)
		for _, below := range some {
			asked[below] = true
		}
		if err := t.receiveArchive(u, server.uri, execclient.ArchiveOptions{Paths: some, Times: true}); err != nil {
			return err
		}
		if err := u.Ended(); err != nil {
			return err
		}
		u.Restart()
	}
	return nil
}

// serverTree is a directory of the server. One that does not exist, and is not made
// because nothing is to be changed, has no URI.
type serverTree struct {
	*copying
	uri string
}

func (t *serverTree) shown(below string) string { return ":" + path.Join(nativePath(t.uri), below) }

func (t *serverTree) list(o listOptions, each func(e *archive.Entry)) error {
	if t.uri == "" {
		return nil
	}
	r, err := t.fs.OpenArchive(t.ctx, t.uri, execclient.ArchiveOptions{
		Exclude: t.options.patterns, Paths: o.paths, List: true, Checksums: o.checksums, Times: true,
	})
	if err != nil {
		return err
	}
	defer r.Close()
	return archive.List(r, each)
}

func (t *serverTree) read(below string) (string, error) {
	r, err := t.fs.OpenStream(t.ctx, under(t.uri, below))
	if err != nil {
		return "", err
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxIgnoreFile+1))
	if err == nil && len(text) > maxIgnoreFile {
		err = errIgnoreFile
	}
	return string(text), err
}

// remove removes what no directory of the list has in it first, and then the directories.
// With whole a directory is removed with everything in it.
func (t *serverTree) remove(doomed []*archive.Entry, whole bool) {
	removeOne := func(e *archive.Entry, o execclient.RemoveOptions) {
		// A directory on the way may be a link by now, which leads anywhere.
		o.NoFollow, o.Link = true, e.Type == archive.Link
		err := t.fs.RemoveWith(t.ctx, under(t.uri, e.Path), o)
		var refused *execclient.ServerError
		// A directory may have something in it that is left out.
		kept := e.Type == archive.Directory && errors.As(err, &refused) && notEmpty().MatchString(refused.Message)
		if err != nil && !kept && !execclient.IsCode(err, execproto.CodeNotFound) {
			t.report(t.shown(e.Path), err)
		}
	}
	var folders []*archive.Entry
	for _, e := range doomed {
		switch {
		case !utf8.ValidString(e.Path):
			t.report(t.shown(e.Path), errors.New("not removed: the name is not UTF-8"))
		case e.Type == archive.Directory && !whole:
			folders = append(folders, e)
		case whole && len(folders) > 0 && isBelow(e.Path, folders[len(folders)-1].Path): // goes with that
		default:
			if e.Type == archive.Directory {
				folders = append(folders, e)
			}
			t.queue.add(func() { removeOne(e, execclient.RemoveOptions{All: whole && e.Type == archive.Directory}) })
		}
	}
	t.queue.run()
	if whole {
		return
	}
	for _, e := range slices.Backward(folders) { // deepest first
		removeOne(e, execclient.RemoveOptions{})
	}
}

// notEmpty finds the error of removing a directory that is not empty, of Linux or macOS.
var notEmpty = pattern.New(`\(os error (39|66)\)`)

// isBelow reports whether a path is in a directory.
func isBelow(below, folder string) bool {
	return len(below) > len(folder) && below[:len(folder)] == folder && below[len(folder)] == '/'
}

// take copies to the server.
func (t *serverTree) take(from tree, paths []string) error {
	return t.sendArchive(from.(*localTree).path, t.uri, archive.PackOptions{Paths: paths, Times: true})
}
