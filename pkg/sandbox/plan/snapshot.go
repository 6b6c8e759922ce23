package plan

import (
	"bytes"
	"errors"
	"io/fs"
	"path"
	"time"

	"codex.internal/pkg/sandbox/permissions"
)

// A plan asks many questions about the same files, and other processes rename,
// exchange and mount meanwhile. Scenario: /w may be written and /w/d/secret is
// denied, and another process exchanges /w/d with a link all the time. If the
// check of links sees the directory and the choice of masks sees the link, the
// plan has no mask for the secret, and the command reads it as soon as the
// directory is back. Checking each answer against earlier ones where it is used
// was tried, but each run of the campaign found another missing check.
//
// So a plan is made from a snapshot, which has one answer for each path. At the
// end all answers are compared with the file system again. If any differs, the
// plan is discarded and made again. The plan contains the identities of the
// files in the snapshot, and the launcher compares them with the files that it
// mounts.

const (
	// snapshotTries bounds how often a plan is made anew because the file system
	// changed while it was made.
	snapshotTries = 10
	// snapshotWait is the pause before the second try. The pause before the third try is twice as
	// long, and so on.
	snapshotWait = time.Millisecond
)

// inconsistent means that the file system changed while a plan was made.
type inconsistent struct{ path string }

func (i *inconsistent) Error() string {
	return "cannot make the sandbox: " + i.path + " was moved, changed or mounted on while the sandbox plan was made"
}

// FileID is the identity of a file: its device and inode. The zero value is no file's identity.
type FileID struct{ Dev, Ino uint64 }

// snapshot is a file system that gives the same answer every time. It resolves
// links itself: the view below is asked only for paths whose directories the
// snapshot knows to be directories.
type snapshot struct {
	view   permissions.View
	looks  map[string]look
	dirs   map[string]directory // of paths that lead there through links
	links  map[string]string
	texts  map[string]text
	broken string // a path about which two answers differ; "": none
}

type look struct {
	info permissions.Info
	err  error
}

// directory is the path of a directory with links resolved, and the number of links in it.
type directory struct {
	real    string
	links   int
	missing bool // it, or a directory above it
	err     error
}

type text struct {
	data  []byte
	limit int
	err   error
}

func newSnapshot(view permissions.View) *snapshot {
	return &snapshot{view: view, looks: make(map[string]look), dirs: make(map[string]directory), links: make(map[string]string), texts: make(map[string]text)}
}

// Lstat implements permissions.View.
func (s *snapshot) Lstat(name string) (permissions.Info, error) {
	if l, ok := s.looks[name]; ok {
		return l.info, l.err
	}
	if name != "/" {
		dir := s.directory(path.Dir(name))
		if dir.err != nil || dir.missing {
			return permissions.Info{}, dir.err
		}
		if l, err := s.Lstat(dir.real); err != nil || l.Type != permissions.Dir {
			return permissions.Info{}, err
		}
		if real := path.Join(dir.real, path.Base(name)); real != name {
			return s.Lstat(real)
		}
	}
	info, err := s.view.Lstat(name)
	s.looks[name] = look{info, err}
	return info, err
}

// canonical reports whether a path is that of an examined directory, and so contains no links.
// Answers are stored only under such paths.
func (s *snapshot) canonical(dir string) bool {
	l, ok := s.looks[dir]
	return ok && l.err == nil && l.info.Type == permissions.Dir
}

// directory returns where the path of a directory leads. It stores the result, which follows from
// other answers. Scenario: a workspace's .git names a directory a thousand levels below a link, and
// the plan looks at each level. If each lookup began at the root, the plan would take hours.
func (s *snapshot) directory(dir string) directory {
	if dir == "/" || s.canonical(dir) {
		return directory{real: dir}
	}
	if d, ok := s.dirs[dir]; ok {
		return d
	}
	d := s.directory(path.Dir(dir))
	d.real = path.Join(d.real, path.Base(dir))
	if d.err == nil && !d.missing {
		var info permissions.Info
		info, d.err = s.Lstat(d.real)
		d.missing = d.err == nil && info.Type == permissions.Missing
		if info.Type == permissions.Symlink {
			var links int
			d.real, links, d.err = permissions.FollowLinks(s, d.real, func(string) {})
			d.links += links
		}
		if d.links > permissions.MaxLinks {
			d.err = permissions.ErrTooManyLinks
		}
	}
	s.dirs[dir] = d
	return d
}

// direct converts a path whose directories may be links to one whose directories are not.
// The view below follows no links.
func (s *snapshot) direct(name string) (string, error) {
	if name == "/" {
		return name, nil
	}
	dir := s.directory(path.Dir(name))
	return path.Join(dir.real, path.Base(name)), dir.err
}

// Readlink implements permissions.View.
func (s *snapshot) Readlink(name string) (string, error) {
	name, err := s.direct(name)
	if err != nil {
		return "", err
	}
	if to, ok := s.links[name]; ok {
		return to, nil
	}
	to, err := s.view.Readlink(name)
	if err != nil {
		s.note(name) // a moment ago it was a link that can be read
		return "", err
	}
	s.links[name] = to
	return to, nil
}

// ReadFile implements permissions.View.
func (s *snapshot) ReadFile(name string, limit int) ([]byte, error) {
	if info, err := s.Lstat(name); err != nil || info.Type == permissions.Missing {
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	name, err := s.direct(name)
	if err != nil {
		return nil, err
	}
	if t, ok := s.texts[name]; ok && t.limit >= limit {
		return t.data[:min(limit, len(t.data))], t.err
	}
	data, err := s.view.ReadFile(name, limit)
	s.texts[name] = text{data, limit, err}
	return data, err
}

// ReadDir implements permissions.View. It does not store the entries, because a pattern may match
// over a hundred thousand of them. The entries must agree with earlier answers. It stores the
// directory's identity. Scenario: /w/*/secret is denied, and another process exchanges /w/a and
// /w/b after the search for matches has read one of them. Without the identity, the search would
// read the same directory twice, and the other one never.
func (s *snapshot) ReadDir(name string, each func(string, permissions.FileType) error) error {
	info, err := s.Lstat(name)
	switch {
	case err != nil:
		return err
	case info.Type != permissions.Dir:
		// It was listed as one, and may be in a directory that was read before.
		s.note(name)
		return fs.ErrNotExist
	}
	if name, err = s.direct(name); err != nil {
		return err
	}
	err = s.view.ReadDir(name, func(entry string, t permissions.FileType) error {
		at := path.Join(name, entry)
		if l, ok := s.looks[at]; ok && l.err == nil && t != permissions.Other && l.info.Type != t {
			s.note(at)
		}
		return each(entry, t)
	})
	var changed *inconsistent
	if errors.As(err, &changed) || errors.Is(err, fs.ErrNotExist) {
		s.note(name)
	}
	return err
}

func (s *snapshot) note(name string) {
	if s.broken == "" {
		s.broken = name
	}
}

// check compares the answers with the file system as it is now. The error is an
// *inconsistent.
func (s *snapshot) check(now permissions.View) error {
	for name, l := range s.looks {
		if s.broken != "" {
			break
		}
		info, err := now.Lstat(name)
		if (err == nil) != (l.err == nil) || info.Type != l.info.Type || info.Dev != l.info.Dev || info.Ino != l.info.Ino {
			s.note(name)
		}
	}
	for name, to := range s.links {
		if real, err := now.Readlink(name); err != nil || real != to {
			s.note(name)
		}
	}
	for name, t := range s.texts {
		if data, err := now.ReadFile(name, t.limit); (err == nil) != (t.err == nil) || !bytes.Equal(data, t.data) {
			s.note(name)
		}
	}
	if s.broken != "" {
		return &inconsistent{s.broken}
	}
	return nil
}

// id is the identity of the file that the snapshot has at a path.
func (s *snapshot) id(name string) FileID {
	info, err := s.Lstat(name)
	if err != nil {
		return FileID{}
	}
	return FileID{info.Dev, info.Ino}
}

// identify records the identities of files in the mounts of a plan.
func (s *snapshot) identify(mounts []Mount) {
	for i := range mounts {
		m := &mounts[i]
		if m.Kind == Link {
			continue
		}
		m.ID = s.id(m.Target)
		if m.Placeholder || m.Perhaps {
			m.Dir = s.id(path.Dir(m.Target))
		}
	}
}

// onSnapshot makes a plan from one consistent state of a file system. If a view has a Walk, it is
// read through that, which goes step by step and uses descriptors.
func onSnapshot(view permissions.View, plan func(s *snapshot) (*Plan, error)) (made *Plan, err error) {
	for try := range snapshotTries {
		time.Sleep(time.Duration(try) * snapshotWait)
		s, done := newSnapshot(view), func() {}
		if host, ok := view.(interface {
			Walk() (permissions.View, func())
		}); ok {
			s.view, done = host.Walk()
		}
		made, err = plan(s)
		if err == nil {
			s.identify(made.Mounts)
		}
		changed := s.check(view)
		done()
		var again *inconsistent
		if changed == nil && !errors.As(err, &again) {
			return made, err
		}
		if changed != nil {
			err = changed
		}
	}
	return nil, err
}

// ErrAppeared means that a name exists that was missing when the plan was made,
// or that its directory was exchanged.
var ErrAppeared = errors.New("it changed after the sandbox plan was made")
