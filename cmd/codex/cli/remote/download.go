package remote

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/dirfd"
	"codex.internal/pkg/wire/pathuri"
)

// download copies files from the server to this machine.
func (cp *copying) download(sources []string, target string) error {
	if isOutput(target) {
		for _, source := range sources {
			if err := cp.printFile(source, cp.out); err != nil {
				return err
			}
		}
		return nil
	}
	st, err := os.Stat(target)
	into := err == nil && st.IsDir()
	if err == nil && isSpecial(st.Mode()) && len(sources) == 1 {
		return cp.writeSpecial(sources[0], target)
	}
	if !into && (len(sources) > 1 || target != "" && os.IsPathSeparator(target[len(target)-1])) {
		return fmt.Errorf("the target %s is not a directory", target)
	}
	dir, name := target, ""
	if !into {
		if target, err = linked(target); err != nil {
			return err
		}
		dir, name = filepath.Split(target)
		if dir == "" {
			dir = "."
		}
	}
	return cp.each(sources, func(source string) error { return cp.downloadNamed(source, dir, name) })
}

// linked returns the path to which a target leads that the user named. As with cp, and as on the server, a link that the
// user named is followed, unless it leads nowhere.
func linked(target string) (string, error) {
	if st, err := os.Lstat(target); err != nil || st.Mode()&fs.ModeSymlink == 0 {
		return target, nil // an error other than a missing file is reported by the copy
	}
	to, err := filepath.EvalSymlinks(target)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("the target %s is a symbolic link that leads nowhere", target)
	} else if err != nil {
		return "", fmt.Errorf("the target %s: %w", target, withoutPath(err))
	}
	return to, nil
}

// downloadNamed copies a source to a name in a directory. An empty name means the name of the
// source.
func (cp *copying) downloadNamed(source, dir, name string) error {
	uri, err := cp.at.uri(source[1:])
	if err != nil {
		return err
	}
	if name == "" {
		if name, err = nameOf(source[1:]); err != nil {
			return fmt.Errorf("copy %s: %w", source, err)
		}
		shown := filepath.Join(dir, name)
		if there, err := os.Lstat(shown); err == nil && isSpecial(there.Mode()) && there.Mode()&fs.ModeSymlink == 0 {
			return cp.writeSpecial(source, shown)
		}
	}
	d := &downloadTop{cp, dir, name}
	if err := d.copy(uri); err != nil {
		return fmt.Errorf("copy %s: %w", source, err)
	}
	return nil
}

// downloadTop is the target of one source: a name in a directory.
type downloadTop struct {
	*copying
	dir, name string
}

// open opens the directory. Links on the way to it are followed, because the user named it.
func (d *downloadTop) open() (*dirfd.Dir, error) {
	in, err := dirfd.Open(d.dir)
	if err != nil {
		return nil, fmt.Errorf("the target's directory %s: %w", filepath.Clean(d.dir), withoutPath(err))
	}
	return in, nil
}

// failed adds the target's path to an error of the local file system.
func (d *downloadTop) failed(err error) error {
	return fmt.Errorf("%s: %w", filepath.Join(d.dir, d.name), withoutPath(err))
}

// copy copies a file or, with --recursive, a directory. It returns an error if nothing was
// copied; errors below a directory are reported.
func (d *downloadTop) copy(uri string) error {
	m, err := d.fs.Stat(d.ctx, uri)
	switch {
	case err != nil:
		return withoutPath(err)
	case !m.IsFile && !m.IsDirectory:
		return errors.New("it is not a regular file")
	case !m.IsFile && !d.options.recursive:
		return errors.New("it is a directory; copy it with -r")
	}
	a := attributesOf(m)
	if d.fs.HasAttributes() {
		if m.IsSymlink { // the user named the link: copy its target
			if uri, err = d.fs.Canonicalize(d.ctx, uri); err != nil {
				return withoutPath(err)
			}
		}
		if a, err = d.fs.Attributes(d.ctx, uri); err != nil {
			return withoutPath(err)
		}
	} else {
		d.warn()
	}
	if m.IsFile {
		return d.again(func() error { return d.file(uri, a) })
	}
	d.bar.tree()
	into, made, err := d.directory(a.Permissions & 0o777)
	if err != nil {
		return err
	}
	return d.remoteTree(uri).unpack(into, made, nil)
}

// attributesOf returns attributes for a file if the server does not report them.
func attributesOf(m execproto.Metadata) execproto.Attributes {
	a := execproto.Attributes{Size: m.Size, Permissions: 0o666}
	if m.IsDirectory {
		a.Permissions = 0o777
	}
	return a
}

// directory enters the directory name without following a link. It creates the directory if it is
// missing.
func (d *downloadTop) directory(perm uint32) (into *dirfd.Dir, made bool, err error) {
	in, err := d.open()
	if err != nil {
		return nil, false, err
	}
	defer in.Close()
	err = in.Mkdir(d.name, perm|0o700)
	if made = err == nil; made || errors.Is(err, fs.ErrExist) {
		into, err = in.Enter(d.name)
	}
	if err != nil {
		return nil, false, d.failed(archive.Occupied(err))
	}
	return into, made, nil
}

// file copies a file by the rules of archives: it replaces only regular files, and in one step.
func (d *downloadTop) file(uri string, a execproto.Attributes) error {
	in, err := d.open()
	if err != nil {
		return err
	}
	o := d.unpacking(uri)
	o.Name, o.Preserve = nil, d.options.preserve && d.fs.HasAttributes()
	u := archive.NewUnpacker(in, false, o)
	defer u.Abort()
	defer d.reserveLarge(int64(a.Size))()
	r, err := d.contents(uri, a)
	if err != nil {
		return withoutPath(err)
	}
	defer r.Close()
	contents := &counted{Reader: r, bar: d.bar}
	e := &archive.Entry{Path: d.name, Type: archive.File, Perm: a.Permissions & 0o777, Size: int64(a.Size), Modified: time.UnixMilli(a.ModifiedAtMS)}
	switch err := u.Put(e, contents); {
	case contents.err != nil:
		return contents.err // the path in the error shows which end failed
	case err != nil:
		return d.failed(err)
	}
	return nil
}

// contents opens a file of the server. A small file takes one round trip. A server without
// attributes may report a wrong size, so its files are streamed.
func (cp *copying) contents(uri string, a execproto.Attributes) (io.ReadCloser, error) {
	if !cp.fs.HasAttributes() {
		return cp.fs.OpenStream(cp.ctx, uri)
	}
	if a.Size > smallFile {
		f, err := cp.fs.OpenStream(cp.ctx, uri)
		return &resumed{cp: cp, uri: uri, a: a, f: f}, err
	}
	data, err := cp.fs.ReadFile(cp.ctx, uri)
	return io.NopCloser(bytes.NewReader(data)), err
}

// resumed is a file of the server that is read on after its connection was lost and recovered.
type resumed struct {
	cp    *copying
	uri   string
	a     execproto.Attributes // of the file when the copy began
	f     io.ReadCloser
	at    int64 // how many bytes were read
	tries int   // connections that were lost since the last byte
}

// Read implements io.Reader.
func (r *resumed) Read(b []byte) (int, error) {
	n, err := r.f.Read(b)
	for n == 0 && r.cp.goesOn(err, r.tries) {
		r.tries++
		switch same, again := r.reopen(); {
		case again != nil:
			err = again
		case !same:
			return 0, err // the copy begins again
		default:
			n, err = r.f.Read(b)
		}
	}
	if r.at += int64(n); n > 0 {
		r.tries = 0
	}
	return n, err
}

// reopen opens the file behind what was read, and reports whether it is still the same.
func (r *resumed) reopen() (same bool, err error) {
	f, err := r.cp.fs.OpenStream(r.cp.ctx, r.uri)
	if err != nil {
		return false, err
	}
	_ = r.f.Close()
	r.f = f
	a, err := r.cp.fs.Attributes(r.cp.ctx, r.uri)
	if err != nil || a.Size != r.a.Size || a.ModifiedAtMS != r.a.ModifiedAtMS {
		return false, err
	}
	_, err = f.(io.Seeker).Seek(r.at, io.SeekStart)
	return true, err
}

// Close implements io.Closer.
func (r *resumed) Close() error { return r.f.Close() }

// errNoName prevents a server from choosing a local name: it could report .ssh as the name of its
// home directory.
var errNoName = errors.New("the source has no name for the copy; give the target's name too, as in ./NAME")

// nameOf returns the local name for a copy of a path of the server: the last component that the
// user typed.
func nameOf(typed string) (string, error) {
	if strings.HasPrefix(typed, "file:") {
		native, err := pathuri.Parse(typed, "")
		if err != nil {
			return "", err
		}
		typed = native
	}
	typed = strings.TrimRight(typed, "/")
	name := typed[strings.LastIndexByte(typed, '/')+1:]
	switch {
	case name == "", name == ".", name == "..", typed == "~":
		return "", errNoName
	}
	local, err := localName(name)
	if err != nil {
		return "", errors.New("this system permits no file with that name; give the target's name too")
	}
	return local, nil
}
