package remote

import (
	"errors"
	"fmt"
	"io"
	"path"
	"path/filepath"
	"unicode/utf8"

	"codex.internal/pkg/execclient"
	"codex.internal/pkg/fileop/archive"
	"codex.internal/pkg/host/dirfd"
)

// unpacking are the options for files that come from a directory of the server.
func (cp *copying) unpacking(uri string) archive.UnpackOptions {
	return archive.UnpackOptions{
		Name:   localName,
		Failed: func(below string, err error) { cp.report(":"+path.Join(nativePath(uri), below), err) },
		Began:  func(e *archive.Entry) { cp.bar.begin(e.Path, e.Size) },
		Got:    cp.bar.add,
	}
}

// receiveArchive reads an archive of the server into u. If the connection is
// lost and comes back, it goes on after the last whole file.
func (cp *copying) receiveArchive(u *archive.Unpacker, uri string, o execclient.ArchiveOptions) error {
	for tries := 0; ; {
		before := u.Done()
		if utf8.ValidString(before) { // else the server could not be told it
			o.After = before
		}
		err := cp.receiveOnce(u, uri, o)
		if err == nil {
			return nil
		}
		if tries++; u.Done() != before {
			tries = 0
		}
		if !cp.goesOn(err, tries) {
			return withoutPath(err)
		}
		u.Restart()
	}
}

func (cp *copying) receiveOnce(u *archive.Unpacker, uri string, o execclient.ArchiveOptions) error {
	r, err := cp.fs.OpenArchive(cp.ctx, uri, o)
	if err != nil {
		return err
	}
	defer r.Close()
	_, err = io.Copy(u, r)
	return err
}

// goesOn reports whether a copy that was cut is worth another try. The next request waits
// until the connection is back, or fails for good.
func (cp *copying) goesOn(err error, tries int) bool {
	var lost *execclient.DisconnectedError
	return errors.As(err, &lost) && cp.ctx.Err() == nil && tries < resumeTries
}

// sendArchive packs a local directory and has the server put the files into one of its
// own. If the connection is lost and comes back, it goes on after the last file that the
// server has whole.
func (cp *copying) sendArchive(source, uri string, o archive.PackOptions) error {
	for tries := 0; ; {
		sent := &sending{}
		err := cp.sendOnce(source, uri, o, sent)
		if err == nil {
			return nil
		}
		tries++
		if sent.done != "" && sent.done != o.After {
			tries, o.After = 0, sent.done
		}
		if !cp.goesOn(err, tries) {
			return withoutPath(err)
		}
	}
}

func (cp *copying) sendOnce(source, uri string, o archive.PackOptions, sent *sending) error {
	from, err := dirfd.Open(source)
	if err != nil {
		return err
	}
	o.Context, o.Got = cp.ctx, cp.bar.add
	o.Began = func(e *archive.Entry, offset int64) {
		if e.Type == archive.File {
			cp.bar.begin(e.Path, e.Size)
		}
		sent.began(e.Path, offset)
	}
	p := archive.NewPacker(from, o)
	defer p.Close()
	w, err := cp.fs.CreateArchive(cp.ctx, uri, execclient.ExtractOptions{
		Preserve: cp.options.preserve, Owners: cp.options.owners, NoFollow: true,
		Failed: func(below, message string) {
			cp.report(filepath.Join(source, filepath.FromSlash(below)), errors.New(message))
		},
		Unnamed: cp.unnamed,
	})
	if err != nil {
		return err
	}
	sent.taken = w.Taken
	if _, err = w.ReadFrom(p); err == nil {
		err = w.Close()
	} else {
		w.Abort()
	}
	sent.forget()
	return err
}

// sending knows which files of an archive the server has.
type sending struct {
	taken func() uint64 // how much of the archive the server has worked on
	begun []beginning   // the entries from done on
	done  string        // the last one that is in its place
}

type beginning struct {
	path   string
	offset int64
}

// began is told of an entry and where in the archive it begins.
func (s *sending) began(path string, offset int64) {
	s.begun = append(s.begun, beginning{path, offset})
	s.forget()
}

// forget forgets the entries that are in their places: a file is when the server has read
// the next entry, so when it has come to the one behind that.
func (s *sending) forget() {
	if s.taken == nil {
		return
	}
	taken, n := s.taken(), 0
	for n+2 < len(s.begun) && uint64(s.begun[n+2].offset) <= taken {
		s.done = s.begun[n].path
		n++
	}
	s.begun = s.begun[n:]
}

// unnamed counts files that the server did not name.
func (cp *copying) unnamed(n uint64) {
	cp.report("", fmt.Errorf("%d more files were not copied, too many to name", n))
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.failed += int(min(n, 1<<31)) - 1
}
