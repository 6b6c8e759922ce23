//go:build linux || darwin

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

	"codex.internal/pkg/sandbox"
	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// readsAllBut reports whether a helper that was started ahead may serve a profile: it lets everything
// be read but single paths, and these are the same as at the start of the helper if their identities
// are. Scenario: a file of tokens, or a denied directory, is replaced. Nothing is mounted on the new
// one in a sandbox that was made before, so that its identity must not lead to that sandbox. As the
// numbers of files are used again, the time of the last change is a part of it.
//
// It looks at the disk.
func (srv *Server) readsAllBut(p *permissions.Profile) (identities string, reads bool) {
	return srv.readsAllButAt(p, disk{unix.Lstat, tellsChanges}, time.Now())
}

// disk is what is asked of a file system.
type disk struct {
	lstat        func(path string, st *unix.Stat_t) error
	tellsChanges func(path string) bool
}

// readsAllButAt is readsAllBut at a time.
func (srv *Server) readsAllButAt(p *permissions.Profile, disk disk, now time.Time) (sum string, reads bool) {
	if p.FileSystem.FullRead() {
		return "", true
	}
	rest := permissions.FileSystem{Entries: make([]permissions.Entry, 0, len(p.FileSystem.Entries))}
	var hidden []string
	for _, e := range p.FileSystem.Entries {
		if e.Access == permissions.Deny && e.Path.Kind == permissions.Literal {
			hidden = append(hidden, e.Path.Text)
		} else {
			rest.Entries = append(rest.Entries, e)
		}
	}
	if !rest.FullRead() {
		return "", false
	}
	own := slices.Concat(srv.secretPaths, srv.ownState())
	id := &identities{disk: disk, settled: now.Add(-settledTime), seen: make(map[string]bool), exact: make(map[uint64]bool)}
	var denied []string
	for _, path := range hidden {
		if !slices.Contains(own, path) {
			denied = append(denied, path)
		} else if _, err := id.add(path); err != nil {
			return "", false
		}
	}
	if len(denied) > 0 && id.addDenied(denied, rest.Entries) != nil {
		return "", false
	}
	digest := sha256.Sum256(id.text)
	return string(digest[:]), true
}

// identities collects what tells whether paths are still the same.
type identities struct {
	disk    disk
	settled time.Time       // a change after that may not be told from the next one
	seen    map[string]bool // the paths that addAll has added
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
		if real, err := permissions.EffectivePath(sandbox.HostView{}, path); err != nil || real != path {
			return fmt.Errorf("%s leads over links, %v", path, err)
		}
		if slices.ContainsFunc(denied, func(dir string) bool { return isBelow(path, dir) }) {
			return fmt.Errorf("%s is granted in what is denied", path)
		}
		if err := id.addAll(filepath.Dir(path)); err != nil {
			return err
		}
	}
	for _, path := range denied {
		if real, err := filepath.EvalSymlinks(path); err != nil || real != path {
			return fmt.Errorf("%s leads over links, %v", path, err)
		}
		if err := id.addAll(path); err != nil {
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
			if dir := os.Getenv("TMPDIR"); dir != "" {
				paths = append(paths, dir)
			}
		default:
			return nil, errors.New("what is granted is not known")
		}
	}
	return paths, nil
}

// addAll adds what there is of a path and of all directories above it. It fails if a time of these
// does not tell of the next change.
func (id *identities) addAll(path string) error {
	for ; !id.seen[path]; path = filepath.Dir(path) {
		id.seen[path] = true
		st, err := id.add(path)
		switch {
		case errors.Is(err, fs.ErrNotExist): // the directory above tells when it comes
			continue
		case err != nil:
			return err
		case time.Unix(0, st.Ctim.Nano()).After(id.settled):
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
	}
	return nil
}

// add adds the identity of what is at a path.
func (id *identities) add(path string) (st unix.Stat_t, err error) {
	if err := id.disk.lstat(path, &st); err != nil {
		return st, err
	}
	id.text = fmt.Appendf(id.text, "%q:%d:%d:%d\n", path, st.Dev, st.Ino, st.Ctim.Nano())
	return st, nil
}
