package remote

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path"
	"sync"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/dirfd"
)

// plainTree is a directory of a server without archives, such as Codex CLI's. Each name takes
// requests of its own, copiesInFlight at a time. These servers support neither permissions nor
// links. Only complete trees are copied, without a comparison.
type plainTree struct{ serverTree }

// errSpecial is the error for a device, a FIFO or a socket in a directory.
var errSpecial = errors.New("not copied: it is a device, a FIFO or a socket")

// take creates the directories, each before the directories in it, and then the files.
func (t *plainTree) take(from tree, _ []string) error {
	t.plain.Lock()
	defer t.plain.Unlock()
	if t.options.preserve {
		t.warn()
	}
	here, directories, files := from.(*localTree), newQueue(t.fatal), newQueue(t.fatal)
	// Each function creates its directory once, and reports whether that succeeded.
	makers := map[string]func() bool{".": func() bool { return true }}
	err := here.list(listOptions{}, func(e *archive.Entry) {
		makeParent := makers[path.Dir(e.Path)]
		try := func(copyEntry func() error) bool {
			if !makeParent() {
				return false
			}
			err := copyEntry()
			if err != nil {
				t.report(here.shown(e.Path), err)
			}
			return err == nil
		}
		uri := under(t.uri, e.Path)
		switch {
		case e.Path == "." && e.Type == archive.Directory:
		case e.Type == archive.Problem:
			t.report(here.shown(e.Path), errors.New(e.Text))
		case e.Type == archive.Link:
			t.report(here.shown(e.Path), errors.New("not copied: it is a symbolic link, which this server cannot create"))
		case e.Type == archive.Directory:
			maker := sync.OnceValue(func() bool {
				return try(func() error { return t.fs.MkdirAllWith(t.ctx, uri, execclient.MkdirOptions{NoFollow: true}) })
			})
			makers[e.Path] = maker
			directories.add(func() { maker() })
		default:
			files.add(func() { try(func() error { return t.send(here, e.Path, uri) }) })
		}
	})
	directories.run()
	files.run()
	return err
}

// send copies a file to the server.
func (t *plainTree) send(here *localTree, below, uri string) error {
	f, info, err := here.open(below)
	if err != nil {
		return err
	}
	defer f.Close()
	return t.uploadFile(f, below, uri, info.Size, permissionsOf(os.FileMode(info.Perm)), execclient.WriteOptions{NoFollow: true, Sparse: info.HasHoles})
}

// plainDownload copies a plainTree into a local directory.
type plainDownload struct {
	*plainTree
	queue *queue

	mu sync.Mutex // serializes the Unpacker
	u  *archive.Unpacker
}

func (t *plainTree) unpack(into *dirfd.Dir, made bool, _ []string) error {
	t.plain.Lock()
	defer t.plain.Unlock()
	d := &plainDownload{plainTree: t, queue: newQueue(t.fatal), u: archive.NewUnpacker(into, made, t.unpacking(t.uri))}
	defer d.u.Abort()
	d.queue.add(func() { d.directory(".", t.uri) })
	d.queue.run()
	return nil
}

// put puts an entry into the local directory.
func (d *plainDownload) put(e *archive.Entry, contents io.Reader) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.u.Put(e, contents)
}

// directory copies the entries of a directory of the server. It validates their names, because the
// server chooses them.
func (d *plainDownload) directory(below, uri string) {
	entries, err := d.fs.ReadDir(d.ctx, uri)
	if err != nil {
		d.report(d.shown(below), err)
	}
	for _, e := range entries {
		name := path.Join(below, e.FileName)
		switch {
		case e.IsLossy:
			d.report(d.shown(name), errors.New("not copied: the name is not UTF-8"))
		case !dirfd.ValidName(e.FileName):
			d.report(d.shown(name), errors.New("not copied: this system permits no file with that name"))
		case d.options.exclude == nil || !d.options.exclude(name, e.IsDirectory):
			d.queue.add(func() {
				if err := d.entry(name, under(uri, e.FileName), e.IsFile); err != nil {
					d.report(d.shown(name), err)
				}
			})
		}
	}
}

// entry copies one entry. It opens a file while it waits for its metadata, because round trips take
// most of the time on a slow connection.
func (d *plainDownload) entry(below, uri string, isFile bool) error {
	var r io.ReadCloser
	errOpen := errSpecial // replaced if the entry is listed as a file
	var opening sync.WaitGroup
	if isFile {
		opening.Go(func() { r, errOpen = d.fs.OpenStream(d.ctx, uri) })
	}
	m, err := d.fs.Stat(d.ctx, uri)
	if opening.Wait(); errOpen == nil {
		defer r.Close()
	}
	switch {
	case err != nil:
		return err
	case m.IsSymlink:
		return errors.New("not copied: it is a symbolic link, and this server does not report its target")
	case m.IsDirectory:
		if err := d.put(&archive.Entry{Path: below, Type: archive.Directory, Perm: 0o777}, nil); err != nil {
			return err
		}
		d.directory(below, uri)
		return nil
	case errOpen != nil:
		return errOpen
	}
	var contents io.Reader = &counted{Reader: r, bar: d.bar}
	if m.Size <= smallFile { // read it while the Unpacker writes another file
		start, err := io.ReadAll(io.LimitReader(contents, smallFile))
		if err != nil {
			return err
		}
		contents = io.MultiReader(bytes.NewReader(start), contents)
	}
	return d.put(&archive.Entry{Path: below, Type: archive.File, Perm: 0o666, Size: int64(m.Size)}, contents)
}
