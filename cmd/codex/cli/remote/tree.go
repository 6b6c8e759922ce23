package remote

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/dirfd"
)

// tree is a directory that is copied from or to: a localTree, a serverTree or a plainTree.
type tree interface {
	// shown returns the path of an entry for display.
	shown(below string) string
	// list calls each for every entry of the tree, in order. A tree that does not exist has no
	// entries.
	list(o listOptions, each func(e *archive.Entry)) error
	// read returns a small file of the tree.
	read(below string) (string, error)
	// unlock lets the user change directories of the tree that have permissions without it. It ignores errors,
	// because the next change returns them.
	unlock(directories []*archive.Entry)
	// remove removes entries. It removes each entry before its directory.
	remove(doomed []*archive.Entry, whole bool)
	// take copies entries of a tree on the other side into this one. If paths is nil, it copies
	// all. It prints the errors of single files, and returns an error if the copy ended early.
	take(from tree, paths []string) error
	// watched begins to watch the tree.
	watched() (sourceWatch, error)
}

// remoteTree is a tree of the server.
type remoteTree interface {
	tree
	// unpack copies entries into a local directory, and closes the directory. If paths is nil, it
	// copies all. made is true if the directory is new.
	unpack(into *dirfd.Dir, made bool, paths []string) error
}

// remoteTree returns the directory of the server with a URI.
func (cp *copying) remoteTree(uri string) remoteTree {
	t := serverTree{cp, uri}
	if cp.fs.HasArchives() {
		return &t
	}
	return &plainTree{t}
}

// listOptions select the entries that list returns. With paths, it returns only these entries, and
// directories among them without their contents.
type listOptions struct {
	checksums bool
	paths     []string
}

// localTree is a local directory. In a dry run, path is empty if the directory does not exist.
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

// open opens a regular file. It does not follow links, because a link may have replaced the file
// since it was listed.
func (t *localTree) open(below string) (*dirfd.File, dirfd.Info, error) {
	d, err := dirfd.Open(t.path)
	if err != nil {
		return nil, dirfd.Info{}, err
	}
	defer func() { _ = d.Close() }()
	folder, name := path.Split(below)
	for part := range strings.SplitSeq(strings.TrimSuffix(folder, "/"), "/") {
		if part == "" {
			continue
		}
		in, err := d.Enter(part)
		if err != nil {
			return nil, dirfd.Info{}, err
		}
		_ = d.Close()
		d = in
	}
	return d.Open(name)
}

func (t *localTree) read(below string) (string, error) {
	f, _, err := t.open(below)
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

func (t *localTree) unlock(directories []*archive.Entry) {
	if len(directories) == 0 {
		return
	}
	root, err := os.OpenRoot(t.path)
	if err != nil {
		return
	}
	defer root.Close()
	for _, e := range directories {
		_ = root.Chmod(filepath.FromSlash(e.Path), fs.FileMode(e.Perm|0o700))
	}
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
		// The directory may contain entries that are left out, so it may stay.
		if in, errIn := fs.ReadDir(root.FS(), e.Path); e.Type != archive.Directory || errIn != nil || len(in) == 0 {
			t.report(t.shown(e.Path), err)
		}
	}
}

func (t *localTree) take(from tree, paths []string) error {
	into, err := dirfd.Open(t.path)
	if err != nil {
		return err
	}
	return from.(remoteTree).unpack(into, false, paths)
}

// serverTree is a directory of the server. In a dry run, uri is empty if the directory does not exist.
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

func (t *serverTree) unlock(directories []*archive.Entry) {
	q := newQueue(t.fatal)
	for _, e := range directories {
		q.add(func() {
			_ = t.fs.SetAttributes(t.ctx, under(t.uri, e.Path), execclient.AttributeChanges{Permissions: new(fs.FileMode(e.Perm | 0o700)), NoFollow: true})
		})
	}
	q.run()
}

// remove first removes all entries except directories. With whole, it removes a directory with all
// its contents.
func (t *serverTree) remove(doomed []*archive.Entry, whole bool) {
	removeOne := func(e *archive.Entry, o execclient.RemoveOptions) {
		// A link may have replaced a directory above the entry since it was listed.
		o.NoFollow, o.Link = true, e.Type == archive.Link
		err := t.fs.RemoveWith(t.ctx, under(t.uri, e.Path), o)
		var refused *execclient.ServerError
		// The directory may contain entries that are left out, so it may stay.
		kept := e.Type == archive.Directory && errors.As(err, &refused) && notEmpty.MatchString(refused.Message)
		if err != nil && !kept && !execclient.IsCode(err, execproto.CodeNotFound) {
			t.report(t.shown(e.Path), err)
		}
	}
	var folders []*archive.Entry
	q := newQueue(t.fatal)
	for _, e := range doomed {
		switch {
		case !utf8.ValidString(e.Path):
			t.report(t.shown(e.Path), errors.New("not removed: the name is not UTF-8"))
		case e.Type == archive.Directory && !whole:
			folders = append(folders, e)
		case whole && len(folders) > 0 && isBelow(e.Path, folders[len(folders)-1].Path): // it was removed with that directory
		default:
			if e.Type == archive.Directory {
				folders = append(folders, e)
			}
			q.add(func() { removeOne(e, execclient.RemoveOptions{All: whole && e.Type == archive.Directory}) })
		}
	}
	q.run()
	if whole {
		return
	}
	for _, e := range slices.Backward(folders) { // deepest first
		removeOne(e, execclient.RemoveOptions{})
	}
}

// notEmpty matches the error of Linux or macOS for removing a directory that is not empty.
var notEmpty = regexp.MustCompile(`\(os error (39|66)\)`)

// isBelow reports whether a path is in a directory.
func isBelow(below, folder string) bool {
	return len(below) > len(folder) && below[:len(folder)] == folder && below[len(folder)] == '/'
}

// take sends the entries as one archive.
func (t *serverTree) take(from tree, paths []string) error {
	return t.sendArchive(from.(*localTree).path, t.uri, archive.PackOptions{
		Exclude: t.options.exclude, Paths: paths, Times: t.options.preserve,
	})
}

// unpack requests archives of limited numbers of paths. It unpacks only requested entries, because
// a server could send others.
func (t *serverTree) unpack(into *dirfd.Dir, made bool, paths []string) error {
	batches := [][]string{nil}
	if paths != nil {
		batches = slices.Collect(slices.Chunk(t.nameable(paths), syncPaths))
	}
	asked := make(map[string]bool)
	o := t.unpacking(t.uri)
	o.Preserve, o.Owner = t.options.preserve, t.options.owners
	o.Wanted = func(below string, isDirectory bool) bool {
		return (paths == nil || asked[below]) && !t.options.leavesOut(below, isDirectory)
	}
	u := archive.NewUnpacker(into, made, o)
	defer u.Abort()
	for _, some := range batches {
		clear(asked)
		for _, below := range some {
			asked[below] = true
		}
		err := t.receiveArchive(u, t.uri, execclient.ArchiveOptions{Exclude: t.options.patterns, Paths: some, Times: t.options.preserve})
		if err != nil {
			return err
		}
		if err := u.Ended(); err != nil {
			return err
		}
		u.Restart()
	}
	return nil
}

// nameable removes the paths that a request cannot name, and reports them.
func (t *serverTree) nameable(paths []string) []string {
	return slices.DeleteFunc(paths, func(below string) bool {
		if utf8.ValidString(below) {
			return false
		}
		t.report(t.shown(below), errors.New("not copied: the name is not UTF-8; copy it with codex remote cp -r"))
		return true
	})
}
