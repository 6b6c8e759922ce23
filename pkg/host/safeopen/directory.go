package safeopen

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxLinks bounds the links that are followed for one path, as Linux does.
const maxLinks = 40

// PrivateDir opens a directory for secrets by its absolute path. With create, it creates missing
// directories with mode 0700. It opens one directory after the other from the root. Every directory
// on the way must belong to this user or to root, and no other user may be able to rename files in
// it; a sticky directory is accepted. A link on the way must belong to this user or to root. The
// directory itself must not be a link, and must be private to this user. Scenario: another user
// creates /tmp/codex before the server does, as a link to a private directory of the server's user,
// or as a directory of that other user (TestPrivateDir). On systems with other file permissions
// only links are checked.
//
// The caller must use the result instead of the path, and close it. The errors contain the path.
// Without create, the error for a missing directory is fs.ErrNotExist.
func PrivateDir(path string, create bool) (*os.Root, error) {
	if !filepath.IsAbs(path) {
		return nil, fmt.Errorf("%s is not an absolute path", path)
	}
	links := 0
	for {
		root, link, err := walk(filepath.Clean(path), create, links == 0)
		if link == "" {
			return root, err
		}
		if path, links = link, links+1; links > maxLinks {
			return nil, fmt.Errorf("%s: too many links", path)
		}
	}
}

// walk opens a clean path. If it meets a link, it returns the path with the link replaced by its
// target.
func walk(path string, create, lastIsOwn bool) (opened *os.Root, link string, err error) {
	volume := filepath.VolumeName(path) + string(filepath.Separator)
	at, err := os.OpenRoot(volume)
	if err != nil {
		return nil, "", err
	}
	defer func() {
		if opened == nil {
			_ = at.Close()
		}
	}()
	names := strings.FieldsFunc(path[len(volume):], func(r rune) bool { return r == filepath.Separator })
	for i, name := range names {
		dir, last := volume+filepath.Join(names[:i]...), i == len(names)-1
		info, err := at.Stat(".")
		if err == nil {
			err = stays(dir, info)
		}
		if err != nil {
			return nil, "", err
		}
		found, err := at.Lstat(name)
		if errors.Is(err, fs.ErrNotExist) && create {
			if err = at.Mkdir(name, 0o700); err == nil || errors.Is(err, fs.ErrExist) {
				found, err = at.Lstat(name)
			}
		}
		full := filepath.Join(dir, name)
		switch {
		case err != nil:
			return nil, "", err
		case found.Mode()&fs.ModeSymlink != 0 && last && lastIsOwn:
			return nil, "", fmt.Errorf("%s is a link", full)
		case found.Mode()&fs.ModeSymlink != 0:
			target, err := at.Readlink(name)
			if err == nil {
				err = trusted(full, found)
			}
			if err != nil {
				return nil, "", err
			}
			if !filepath.IsAbs(target) {
				target = filepath.Join(dir, target)
			}
			return nil, filepath.Join(append([]string{target}, names[i+1:]...)...), nil
		case !found.IsDir(): // to open a FIFO would wait for a writer
			return nil, "", fmt.Errorf("%s is no directory", full)
		}
		next, err := at.OpenRoot(name)
		if err != nil {
			return nil, "", err
		}
		_ = at.Close()
		at = next
		if now, err := at.Stat("."); err != nil || !os.SameFile(now, found) {
			return nil, "", errors.Join(err, fmt.Errorf("%s was exchanged", full))
		}
	}
	info, err := at.Stat(".")
	if err == nil {
		err = CheckOwn(path, info, 0o700)
	}
	if err != nil {
		return nil, "", err
	}
	return at, "", nil
}
