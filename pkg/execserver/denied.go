//go:build linux || darwin

package execserver

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
func (srv *Server) readsAllBut(p *permissions.Profile) (identities string, reads bool) {
	return srv.readsAllButBy(p, unix.Lstat)
}

// lstat is as unix.Lstat.
type lstat func(path string, st *unix.Stat_t) error

func (srv *Server) readsAllButBy(p *permissions.Profile, look lstat) (identities string, reads bool) {
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
	now := time.Now()
	var text []byte
	for _, path := range hidden {
		var err error
		if slices.Contains(own, path) {
			text, err = look.appendIdentity(text, path, time.Time{})
		} else {
			text, err = look.appendDenied(text, path, rest.Entries, now)
		}
		if err != nil {
			return "", false
		}
	}
	return string(text), true
}

// appendDenied appends the identities of a path that a client denies and of all directories above it.
// It fails if the path leads over links, if an entry may grant something in it, or if
// anything of it was changed a moment before now.
//
// Scenario: a command may write the directory above the denied one. It renames that directory
// while a helper is started, whose sandbox then masks nothing, and back before the next
// request. The times of the directories tell of both renamings. They are not exact, so that one
// that is not yet settled tells nothing.
func (look lstat) appendDenied(text []byte, denied string, grants []permissions.Entry, now time.Time) ([]byte, error) {
	if real, err := filepath.EvalSymlinks(denied); err != nil || real != denied {
		return nil, fmt.Errorf("%s leads over links, %v", denied, err)
	}
	for _, e := range grants {
		var granted string
		switch e.Path.Kind {
		case permissions.Root:
			continue
		case permissions.Literal:
			granted = e.Path.Text
		case permissions.SlashTmp:
			granted = "/tmp"
		case permissions.Tmpdir:
			if granted = os.Getenv("TMPDIR"); granted == "" {
				continue
			}
		default:
			return nil, fmt.Errorf("what is granted is not known")
		}
		if real, err := permissions.EffectivePath(sandbox.HostView{}, granted); err != nil || isBelow(real, denied) || isBelow(granted, denied) {
			return nil, fmt.Errorf("%s is granted in %s, %v", granted, denied, err)
		}
	}
	for path := denied; ; path = filepath.Dir(path) {
		var err error
		if text, err = look.appendIdentity(text, path, now.Add(-settledTime)); err != nil || path == "/" {
			return text, err
		}
	}
}

// appendIdentity appends the identity of what is at a path. It fails if that was last changed
// after before, unless that is zero.
func (look lstat) appendIdentity(text []byte, path string, before time.Time) ([]byte, error) {
	var st unix.Stat_t
	if err := look(path, &st); err != nil {
		return nil, err
	}
	changed := time.Unix(0, st.Ctim.Nano())
	if !before.IsZero() && changed.After(before) {
		return nil, fmt.Errorf("%s was changed just now", path)
	}
	return fmt.Appendf(text, "\x00%d:%d:%d", st.Dev, st.Ino, st.Ctim.Nano()), nil
}
