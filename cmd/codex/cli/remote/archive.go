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

// unpacking returns the options for unpacking a directory of the server.
func (cp *copying) unpacking(uri string) archive.UnpackOptions {
	return archive.UnpackOptions{
		Name:   localName,
		Failed: func(below string, err error) { cp.report(":"+path.Join(nativePath(uri), below), err) },
		Began:  func(e *archive.Entry) { cp.bar.begin(e.Path, e.Size) },
		Got:    cp.bar.add,
	}
}

// receiveArchive unpacks an archive of the server with u. If the connection is lost and
// recovered, it continues after the last complete file.
func (cp *copying) receiveArchive(u *archive.Unpacker, uri string, o execclient.ArchiveOptions) error {
	for tries := 0; ; {
		before := u.Done()
		if utf8.ValidString(before) { // a request cannot contain other paths
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

// goesOn reports whether an interrupted copy must be tried again. The next request waits until the
// connection is recovered, and fails if it cannot be.
func (cp *copying) goesOn(err error, tries int) bool {
	var lost *execclient.DisconnectedError
	return errors.As(err, &lost) && cp.ctx.Err() == nil && tries < resumeTries
}

// again copies a file. If the connection was lost and recovered meanwhile, it copies the file once more from
// its beginning if nothing else continues the copy: a download that a resumed cannot continue, and an upload to a server
// that cannot replace a file in one step, or whose last request was not answered.
func (cp *copying) again(file func() error) error {
	for tries := 1; ; tries++ {
		if err := file(); err == nil || !cp.goesOn(err, tries) {
			return err
		}
	}
}

// sendArchive packs a local directory and has the server unpack it. If the connection is lost
// and recovered, it continues after the last file that the server has completed.
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

// sending tracks which files of an archive the server has completed.
type sending struct {
	taken func() uint64 // returns the number of bytes of the archive that the server has processed
	begun []beginning   // the entries after done
	done  string        // the last completed entry
}

type beginning struct {
	path   string
	offset int64
}

// began adds an entry and its offset in the archive.
func (s *sending) began(path string, offset int64) {
	s.begun = append(s.begun, beginning{path, offset})
	s.forget()
}

// forget drops the completed entries. A file is complete when the server has read the header of the
// next entry. That is certain when the server has processed the archive up to the entry after that one.
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

// unnamed adds failures whose names the server did not report.
func (cp *copying) unnamed(n uint64) {
	cp.report("", fmt.Errorf("%d more files were not copied, too many to name", n))
	cp.mu.Lock()
	defer cp.mu.Unlock()
	cp.failed += int(min(n, 1<<31)) - 1
}
