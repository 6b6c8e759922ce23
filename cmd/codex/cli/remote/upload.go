package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/wire/pathuri"
)

// upload copies local files to the server.
func (cp *copying) upload(sources []string, target string) error {
	if target == "" {
		target = "."
	}
	uri, err := cp.at.uri(target)
	if err != nil {
		return err
	}
	m, err := cp.fs.Stat(cp.ctx, uri)
	into := err == nil && m.IsDirectory
	if !into && (len(sources) > 1 || strings.HasSuffix(target, "/")) {
		return fmt.Errorf("the target :%s is not a directory on the server", target)
	}
	if !into {
		special := err == nil && !m.IsFile
		return cp.each(sources, func(source string) error { return cp.uploadNamed(source, uri, special, false) })
	}
	if uri, err = cp.fs.Canonicalize(cp.ctx, uri); err != nil {
		return fmt.Errorf("the target :%s: %w", target, withoutPath(err))
	}
	return cp.each(sources, func(source string) error {
		if isInput(source) {
			return fmt.Errorf("standard input has no name of its own to be copied to; name the target too, as in :%s/NAME", strings.TrimSuffix(target, "/"))
		}
		abs, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		to := under(uri, filepath.Base(abs))
		m, err := cp.fs.Stat(cp.ctx, to)
		return cp.uploadNamed(source, to, err == nil && !m.IsFile && !m.IsDirectory, true)
	})
}

// uploadNamed copies what the user has named to a URI: also the contents of a device or
// a FIFO, and into one, which special says that there is. With below the user has named
// the directory of the URI: a link there is not followed if a directory is copied.
func (cp *copying) uploadNamed(source, uri string, special, below bool) error {
	if isInput(source) {
		return cp.uploadStream(cp.in, "standard input", uri, special)
	}
	st, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	if st.IsDir() {
		return cp.uploadTree(source, uri, st, below)
	}
	if !special && st.Mode().IsRegular() {
		return cp.uploadFile(source, uri, st, false)
	}
	f, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	defer f.Close()
	return cp.uploadStream(f, source, uri, special)
}

// uploadTree copies a directory. It returns an error if nothing was copied; what is
// wrong below the directory is reported.
func (cp *copying) uploadTree(source, uri string, st os.FileInfo, below bool) error {
	if !cp.options.recursive {
		return fmt.Errorf("%s is a directory; copy it with -r", source)
	}
	err := cp.makeDirectory(uri, st, below)
	if err == nil && !below {
		uri, err = cp.fs.Canonicalize(cp.ctx, uri) // the user has named it: a link to it is followed
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	cp.bar.tree()
	if cp.fs.HasArchives() {
		err := cp.uploadArchive(source, uri)
		if !cp.options.preserve {
			cp.finishDirectory(source, uri, st)
		}
		return err
	}
	cp.uploadEntries(&uploadFolder{newFolder(cp.queue, nil, func() { cp.finishDirectory(source, uri, st) }), source, ".", uri})
	return nil
}

// makeDirectory makes a directory of the server that this copy may write into.
func (cp *copying) makeDirectory(uri string, st os.FileInfo, noFollow bool) error {
	o := execclient.MkdirOptions{NoFollow: noFollow}
	if cp.fs.HasAttributes() {
		if o.Permissions = permissionsOf(st.Mode()); o.Permissions != nil {
			*o.Permissions |= 0o700
		}
	}
	return cp.fs.MkdirAllWith(cp.ctx, uri, o)
}

// finishDirectory sets what could not be set while the directory was written into.
func (cp *copying) finishDirectory(source, uri string, st os.FileInfo) {
	if own := permissionsOf(st.Mode()); !cp.options.preserve && (own == nil || *own&0o700 == 0o700) {
		return
	}
	if err := cp.setAttributes(uri, st); err != nil {
		cp.report(source, err)
	}
}

// setAttributes gives a file or directory of the server the permissions of a local one,
// and with -p its time. The directory of the URI has no links in its path.
func (cp *copying) setAttributes(uri string, st os.FileInfo) error {
	if !cp.fs.HasAttributes() {
		cp.warn()
		return nil
	}
	changes := execclient.AttributeChanges{Permissions: permissionsOf(st.Mode()), NoFollow: true}
	if cp.options.preserve {
		changes.Modified = st.ModTime()
	}
	return withoutPath(cp.fs.SetAttributes(cp.ctx, uri, changes))
}

// uploadFolder is a local directory that is being copied to uri; below is its path from
// the source, with slashes.
type uploadFolder struct {
	*folder
	source, below, uri string
}

// uploadEntries adds what is in a directory to the queue, and ends the task of listing
// it.
func (cp *copying) uploadEntries(f *uploadFolder) {
	defer f.done()
	entries, err := os.ReadDir(f.source)
	if err != nil {
		cp.report(f.source, err)
	}
	for _, e := range entries {
		name := filepath.Join(f.source, e.Name())
		below := filepath.ToSlash(filepath.Join(f.below, e.Name()))
		uri := under(f.uri, e.Name())
		if cp.options.excludes(below) {
			continue
		}
		f.add(func() {
			st, err := e.Info()
			switch {
			case err != nil:
			case st.IsDir():
				cp.uploadDirectory(&uploadFolder{nil, name, below, uri}, f.folder, st)
			case st.Mode().IsRegular():
				err = cp.uploadFile(name, uri, st, true)
			case st.Mode()&fs.ModeSymlink != 0:
				err = cp.uploadLink(name, uri)
			default:
				err = errSpecial
			}
			if err != nil {
				cp.report(name, err)
			}
		})
	}
}

// errSpecial is said of devices, FIFOs and sockets in a directory.
var errSpecial = errors.New("not copied: it is a device, a FIFO or a socket")

// uploadDirectory makes a directory below the source and lists it.
func (cp *copying) uploadDirectory(f *uploadFolder, above *folder, st os.FileInfo) {
	if err := cp.makeDirectory(f.uri, st, true); err != nil {
		cp.report(f.source, err)
		return
	}
	f.folder = newFolder(cp.queue, above, func() { cp.finishDirectory(f.source, f.uri, st) })
	cp.uploadEntries(f)
}

// uploadLink copies a link as a link.
func (cp *copying) uploadLink(name, uri string) error {
	target, err := os.Readlink(name)
	switch {
	case err != nil:
		return err
	case !cp.fs.HasAttributes():
		return errors.New("not copied: it is a symbolic link, and this server makes none")
	case !utf8.ValidString(target):
		return fmt.Errorf("not copied: it is a link to a name that is not UTF-8: %q", target)
	}
	return withoutPath(cp.fs.Symlink(cp.ctx, filepath.ToSlash(target), uri, execclient.SymlinkOptions{Overwrite: true, NoFollow: true}))
}

// uploadFile copies a regular file. below says that it is in a directory that is copied:
// then no link is followed to its target.
func (cp *copying) uploadFile(source, uri string, st os.FileInfo, below bool) error {
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	cp.bar.begin(source, st.Size())
	// Servers that cannot replace a file in one step write into it.
	o := execclient.WriteOptions{Atomic: cp.fs.CanWriteAtomically(), NoFollow: below}
	own := permissionsOf(st.Mode())
	switch {
	case cp.fs.HasAttributes():
		o.Permissions = own
	case own != nil && (*own&0o111 != 0 || *own&0o044 != 0o044):
		cp.warn()
	}
	if st.Size() <= smallFile && (cp.fs.HasAttributes() || !o.Atomic) {
		err = cp.uploadSmall(f, uri, st.Size(), o)
	} else {
		err = cp.uploadLarge(f, uri, st.Size(), o)
	}
	if err == nil && cp.options.preserve {
		if !below {
			uri, err = cp.fs.Canonicalize(cp.ctx, uri) // a link that was named was followed
		}
		if err == nil {
			err = cp.setAttributes(uri, st)
		}
	}
	if err != nil && !below {
		err = fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	return err
}

// uploadSmall sends a file in one message: that is one round trip.
func (cp *copying) uploadSmall(f *os.File, uri string, size int64, o execclient.WriteOptions) error {
	data := make([]byte, size)
	n, err := io.ReadFull(f, data)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return err
	}
	if err := cp.fs.WriteFileWith(cp.ctx, uri, data[:n], o); err != nil {
		return err
	}
	cp.bar.add(n)
	return nil
}

// uploadLarge sends a file in blocks, if the server takes blocks.
func (cp *copying) uploadLarge(f *os.File, uri string, size int64, o execclient.WriteOptions) error {
	if size > smallFile {
		cp.large <- struct{}{}
		defer func() { <-cp.large }()
	}
	err := cp.fs.WriteStream(cp.ctx, uri, &counted{f, cp.bar}, o)
	if errors.Is(err, execclient.ErrUnsupported) {
		return cp.uploadWhole(f, uri)
	}
	return err
}

// counted is a reader whose bytes a progress bar counts.
type counted struct {
	io.Reader
	bar *progress
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bar.add(n)
	return n, err
}

// uploadWhole sends a file in one message to an old server.
func (cp *copying) uploadWhole(in io.Reader, uri string) error {
	data, err := readWhole(in)
	if err != nil {
		return err
	}
	cp.bar.add(len(data))
	return writeBeside(cp.ctx, cp.fs, uri, data)
}

// writeBeside writes a file of an old server: beside the target first, so that a broken
// connection leaves the target as it was.
func writeBeside(ctx context.Context, fs *execclient.FS, uri string, data []byte) error {
	beside := uri + ".codex-part"
	if err := fs.WriteFile(ctx, beside, data); err != nil {
		return err
	}
	defer func() { _ = fs.Remove(ctx, beside) }()
	return fs.Copy(ctx, beside, uri, false)
}

// nativePath is a URI of the server for people.
func nativePath(uri string) string {
	if native, err := pathuri.Parse(uri, ""); err == nil {
		return native
	}
	return uri
}
