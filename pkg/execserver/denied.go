package execserver

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// readsAllBut reports whether a helper that was started ahead may serve a profile: it lets everything
// be read but single paths, and these are the same as at the start of the helper if their identities
// are. Scenario: a file of tokens, or a denied directory, is replaced. Nothing is mounted on the new
// one in a sandbox that was made before, so that its identity must not lead to that sandbox. As the
// numbers of files are used again, the time of the last change is a part of it.
//
// How long ago the server's own files were changed does not matter: it writes some of them all the time, and the
// identities of the directories above them tell of renamings; see shared. It looks at the disk.
func readsAllBut(intent *fileIntent) (identities string, reads bool) {
	return readsAllButAt(&intent.hide().Profile, intent.hidden.paths, disk{intent.hidden.seen.lstat, tellsChanges, tellsRenamings}, time.Now())
}

// disk is what is asked of a file system.
type disk struct {
	lstat          func(path string, st *unix.Stat_t) error
	tellsChanges   func(path string) bool
	tellsRenamings func(path string) bool
}

// readsAllButAt is readsAllBut at a time. own are the server's files that the profile denies.
func readsAllButAt(p *permissions.Profile, own []string, disk disk, now time.Time) (sum string, reads bool) {
	if p.FileSystem.FullRead() {
		return "", true
	}
	hidden, rest := splitDenied(&p.FileSystem)
	if !rest.FullRead() {
		return "", false
	}
	id := &identities{disk: disk, settled: now.Add(-settledTime), seen: make(map[string]bool), exact: make(map[uint64]bool)}
	var denied []string
	for _, path := range hidden {
		if !slices.Contains(own, path) {
			denied = append(denied, path)
		} else if id.addAll(path, care{there: true}) != nil {
			return "", false
		}
	}
	if len(denied) > 0 && id.addDenied(denied, rest.Entries) != nil {
		return "", false
	}
	digest := sha256.Sum256(id.text)
	return string(digest[:]), true
}

// splitDenied returns the paths that entries deny, and the other entries.
func splitDenied(fs *permissions.FileSystem) (denied []string, rest permissions.FileSystem) {
	rest.Entries = make([]permissions.Entry, 0, len(fs.Entries))
	for _, e := range fs.Entries {
		if e.Access == permissions.Deny && e.Path.Kind == permissions.Literal {
			denied = append(denied, e.Path.Text)
		} else {
			rest.Entries = append(rest.Entries, e)
		}
	}
	return denied, rest
}

// identities collects what tells whether paths are still the same.
type identities struct {
	disk    disk
	settled time.Time       // a change after that may not be told from the next one
	seen    map[string]bool // the paths that addAll has added, and whether they were settled
	exact   map[uint64]bool // devices whose file systems tell of every renaming
	text    []byte
}

// addDenied adds paths that a client denies, and all directories above them. It fails if one leads over
// links, if another entry of the client may grant something in it, or if anything of it was changed
// a moment ago.
//
// Scenario: a command may write the directory above the denied one. It renames that directory
// while a helper is started, whose sandbox then masks nothing, and back before the next request. The
// times of the directories tell of both renamings. Or what is granted becomes a link into the denied
// directory meanwhile: the directories above it tell of that.
func (id *identities) addDenied(denied []string, grants []permissions.Entry) error {
	granted, err := grantedPaths(grants)
	if err != nil {
		return err
	}
	if len(denied) > maxDenied || len(granted) > maxGranted {
		return fmt.Errorf("%d denied and %d granted paths", len(denied), len(granted))
	}
	for _, path := range slices.Concat(denied, granted) {
		if strings.Count(path, "/") > maxDepth {
			return fmt.Errorf("%s is too deep", path)
		}
	}
	for _, path := range granted {
		if slices.ContainsFunc(denied, func(dir string) bool { return isBelow(path, dir) }) {
			return fmt.Errorf("%s is granted in what is denied", path)
		}
		var st unix.Stat_t
		if err := id.disk.lstat(path, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return fmt.Errorf("%s is a link", path)
		}
		if err := id.addAll(filepath.Dir(path), care{settled: true}); err != nil {
			return err
		}
	}
	for _, path := range denied {
		if err := id.addAll(path, care{there: true, settled: true}); err != nil {
			return err
		}
	}
	return nil
}

// grantedPaths returns the paths that entries may grant, but for the root. It fails for
// entries that stand for an unknown number of them.
func grantedPaths(grants []permissions.Entry) (paths []string, err error) {
	for _, e := range grants {
		switch e.Path.Kind {
		case permissions.Root:
		case permissions.Literal:
			paths = append(paths, e.Path.Text)
		case permissions.SlashTmp:
			paths = append(paths, "/tmp")
		case permissions.Tmpdir:
			if dir := os.Getenv("TMPDIR"); filepath.IsAbs(dir) {
				paths = append(paths, filepath.Clean(dir))
			}
		default:
			return nil, errors.New("what is granted is not known")
		}
	}
	return paths, nil
}

// care says what addAll demands.
type care struct {
	there   bool // the path exists
	settled bool // the times of the path and of the directories above it tell of the next change
}

// addAll adds a path and all directories above it, as far as they exist. It fails if one of them is a link.
func (id *identities) addAll(path string, care care) error {
	for at := path; ; at = filepath.Dir(at) {
		if settled, seen := id.seen[at]; seen && (settled || !care.settled) {
			return nil
		}
		var st unix.Stat_t
		err := id.disk.lstat(at, &st)
		switch {
		case errors.Is(err, fs.ErrNotExist) && !(care.there && at == path) && at != "/": // the directory above tells when it comes
			continue
		case err != nil:
			return err
		case st.Mode&unix.S_IFMT == unix.S_IFLNK:
			return fmt.Errorf("%s is a link", at)
		}
		useless := id.shared
		if at == path {
			useless = id.written
		}
		id.add(at, &st, !care.settled && useless(at, &st))
		id.seen[at] = care.settled
		if care.settled {
			if err := id.settle(at, &st); err != nil {
				return err
			}
		}
		if at == "/" {
			return nil
		}
	}
}

// shared reports whether the time of a directory is of no use, as everybody makes files in it all the time: /tmp is one. If
// the directory itself is renamed, that changes the time of the one above it, which is not shared; and if what lies in it is renamed,
// that changes the time of that, on the file systems of tellsRenamings.
func (id *identities) shared(path string, st *unix.Stat_t) bool {
	var above unix.Stat_t
	return st.Mode&unix.S_ISVTX != 0 && path != "/" && id.disk.lstat(filepath.Dir(path), &above) == nil && above.Mode&unix.S_ISVTX == 0 &&
		id.disk.tellsRenamings(path)
}

// written reports whether the time of a file of the server's is of no use, as it tells of what is written to it. Scenario: each
// request adds to the audit trail. If the file is replaced, that changes the time of the directory above it, unless that is shared.
func (id *identities) written(path string, st *unix.Stat_t) bool {
	var above unix.Stat_t
	return st.Mode&unix.S_IFMT == unix.S_IFREG && id.disk.lstat(filepath.Dir(path), &above) == nil && !id.shared(filepath.Dir(path), &above)
}

// settle fails if what was found at a path may change next without another time.
func (id *identities) settle(path string, st *unix.Stat_t) error {
	if time.Unix(0, st.Ctim.Nano()).After(id.settled) {
		return fmt.Errorf("%s was changed just now", path)
	}
	device := uint64(st.Dev)
	exact, known := id.exact[device]
	if !known {
		exact = id.disk.tellsChanges(path)
		id.exact[device] = exact
	}
	if !exact {
		return fmt.Errorf("%s is on a file system that may not tell of changes", path)
	}
	return nil
}

// add adds the identity of what is at a path; without its time if that changes all the time.
func (id *identities) add(path string, st *unix.Stat_t, timeless bool) {
	id.text = fmt.Appendf(id.text, "%q:%d:%d", path, st.Dev, st.Ino)
	if !timeless {
		id.text = fmt.Appendf(id.text, ":%d", st.Ctim.Nano())
	}
	id.text = append(id.text, '\n')
}
