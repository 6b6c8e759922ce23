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

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/fileop/archive"
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
			return fmt.Errorf("standard input has no name for the copy; give the target's name too, as in :%s/NAME", strings.TrimSuffix(target, "/"))
		}
		abs, err := filepath.Abs(source)
		if err != nil {
			return err
		}
		to := under(uri, filepath.Base(abs))
		m, err := cp.fs.Stat(cp.ctx, to)
		return cp.uploadNamed(source, to, err == nil && !m.IsFile && !m.IsDirectory && !m.IsSymlink, true)
	})
}

// uploadNamed copies a source to a URI. If the source is a device or a FIFO, it copies the data
// that it reads from it. special means that the target is a device, a FIFO or a terminal, and that
// the data is written into it. below means that the user named the directory of the URI: then a link
// at the target is not followed.
func (cp *copying) uploadNamed(source, uri string, special, below bool) error {
	if isInput(source) {
		return cp.uploadStream(cp.in, "standard input", uri, special, below)
	}
	st, err := os.Stat(source)
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	if st.IsDir() {
		return cp.uploadTree(source, uri, st, below)
	}
	if !special && st.Mode().IsRegular() {
		if err := cp.uploadNamedFile(source, uri, st, below); err != nil {
			return fmt.Errorf("copy %s: %w", source, withoutPath(err))
		}
		return nil
	}
	f, err := os.Open(source)
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	defer f.Close()
	return cp.uploadStream(f, source, uri, special, below)
}

// uploadTree copies a directory. It returns an error if the copy ended early. It reports other
// errors itself.
func (cp *copying) uploadTree(source, uri string, st os.FileInfo, below bool) error {
	if !cp.options.recursive {
		return fmt.Errorf("%s is a directory; copy it with -r", source)
	}
	err := cp.makeDirectory(uri, st, below)
	if err == nil && !below {
		uri, err = cp.fs.Canonicalize(cp.ctx, uri) // the user named the link, so it is followed
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	cp.bar.tree()
	err = cp.remoteTree(uri).take(&localTree{cp, source}, nil)
	if own := permissionsOf(st.Mode()); !cp.options.preserve && cp.fs.HasAttributes() && own != nil && *own&0o700 != 0o700 {
		// The directory had to be writable until now.
		if err := cp.setAttributes(uri, st); err != nil {
			cp.report(source, err)
		}
	}
	if err != nil {
		return fmt.Errorf("copy %s: %w", source, withoutPath(err))
	}
	return nil
}

// makeDirectory creates a directory on the server. The directory is writable until this copy has ended.
func (cp *copying) makeDirectory(uri string, st os.FileInfo, noFollow bool) error {
	o := execclient.MkdirOptions{NoFollow: noFollow}
	if cp.fs.HasAttributes() {
		if o.Permissions = permissionsOf(st.Mode()); o.Permissions != nil {
			*o.Permissions |= 0o700
		}
	}
	return cp.fs.MkdirAllWith(cp.ctx, uri, o)
}

// setAttributes gives a file or directory of the server the permissions of a local one, and with -p
// its time. The path of the URI must contain no links.
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

// noLink returns an error for a link of the server at which nothing may be written. A link that appears later is refused
// by servers of this project.
func (cp *copying) noLink(uri string, below bool) error {
	if !below {
		return nil
	}
	if m, err := cp.fs.Stat(cp.ctx, uri); err == nil && m.IsSymlink {
		return archive.ErrLinkHere
	}
	return nil
}

// notThrough replaces the error of a file that was not written because of a link.
func notThrough(err error, below bool) error {
	if below && errors.Is(err, fs.ErrInvalid) {
		return archive.ErrLinkHere
	}
	return err
}

// uploadNamedFile copies a regular file that the user has named. It follows a link at the target, unless the user named
// the directory of the target only.
func (cp *copying) uploadNamedFile(source, uri string, st os.FileInfo, below bool) error {
	if err := cp.noLink(uri, below); err != nil {
		return err
	}
	f, err := os.Open(source)
	if err != nil {
		return err
	}
	defer f.Close()
	err = cp.again(func() error {
		if _, err := f.Seek(0, io.SeekStart); err != nil {
			return err
		}
		return cp.uploadFile(f, source, uri, st.Size(), permissionsOf(st.Mode()), execclient.WriteOptions{Sparse: hasHoles(st), NoFollow: below})
	})
	if err != nil {
		return notThrough(err, below)
	}
	if !cp.options.preserve {
		return nil
	}
	if uri, err = cp.fs.Canonicalize(cp.ctx, uri); err != nil {
		return err
	}
	return cp.setAttributes(uri, st)
}

// uploadFile writes a file of the server. A server that cannot replace a file in one step writes
// into the existing file.
func (cp *copying) uploadFile(f io.Reader, name, uri string, size int64, own *os.FileMode, o execclient.WriteOptions) error {
	cp.bar.begin(name, size)
	o.Atomic = cp.fs.CanWriteAtomically()
	switch {
	case cp.fs.HasAttributes():
		o.Permissions = own
	case own != nil && (*own&0o111 != 0 || *own&0o044 != 0o044):
		cp.warn()
	}
	if size <= smallFile && (cp.fs.HasAttributes() || !o.Atomic) {
		return cp.uploadSmall(f, uri, size, o)
	}
	defer cp.reserveLarge(size)()
	err := cp.fs.WriteStream(cp.ctx, uri, &counted{Reader: f, bar: cp.bar}, o)
	if errors.Is(err, execclient.ErrUnsupported) { // the server does not support blocks
		return cp.uploadWhole(f, uri)
	}
	return err
}

// uploadSmall sends a file in one message, which takes one round trip.
func (cp *copying) uploadSmall(f io.Reader, uri string, size int64, o execclient.WriteOptions) error {
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

// counted is a reader that reports the read bytes to a progress bar.
type counted struct {
	io.Reader
	bar *progress
	err error // the error of reading; nil at the end of the input
}

func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.bar.add(n)
	if err != nil && !errors.Is(err, io.EOF) {
		c.err = err
	}
	return n, err
}

// uploadWhole sends a file in one message to a server that does not support blocks.
func (cp *copying) uploadWhole(in io.Reader, uri string) error {
	data, err := readWhole(in)
	if err != nil {
		return err
	}
	cp.bar.add(len(data))
	return writeBeside(cp.ctx, cp.fs, uri, data)
}

// writeBeside writes a file on a server that cannot replace one in one step. It writes another file
// first and copies that, so that a lost connection leaves the target unchanged.
func writeBeside(ctx context.Context, fs *execclient.FS, uri string, data []byte) error {
	beside := uri + ".codex-part"
	if err := fs.WriteFile(ctx, beside, data); err != nil {
		return err
	}
	defer func() { _ = fs.Remove(ctx, beside) }()
	return fs.Copy(ctx, beside, uri, false)
}

// nativePath returns the path of a URI of the server, for printing.
func nativePath(uri string) string {
	if native, err := pathuri.Parse(uri, ""); err == nil {
		return native
	}
	return uri
}
