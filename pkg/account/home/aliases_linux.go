package home

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// Names in the home directory.
const (
	aliasRoot   = "tmp/arg0"
	aliasPrefix = "codex-arg0"
	lockName    = ".lock"
)

// Aliases is a directory of symbolic links to this program under other names. It is added to the
// PATH of the programs that this program starts. While this program runs, a lock marks the
// directory as used. If a killed program has left its directory behind, the next program that calls
// CleanUp removes it.
type Aliases struct {
	root    string
	dir     string
	path    []string
	lock    *os.File
	stop    context.CancelFunc
	janitor sync.WaitGroup
}

// MakeAliases creates the directory below home, which it creates too if it is missing. The
// directory has a link to self, the path of this program, for each of names. MakeAliases fails if
// home is below temp, the system's directory for temporary files, because another user could have
// created home there.
func MakeAliases(home, temp, self string, names []string) (*Aliases, error) {
	if isBelow(home, temp) {
		return nil, fmt.Errorf("Refusing to create helper binaries under temporary dir %q (codex_home: %q)", temp, home) //lint:ignore ST1005 Codex CLI's text
	}
	root := filepath.Join(home, aliasRoot)
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(root, 0o700); err != nil {
		return nil, err
	}
	dir, err := randomDirectory(root)
	if err != nil {
		return nil, err
	}
	a := &Aliases{root: root, dir: dir, path: []string{dir}}
	if err := a.fill(self, names); err != nil {
		return nil, errors.Join(err, a.Close())
	}
	if extra := packagePath(self); extra != "" {
		a.path = append(a.path, extra)
	}
	return a, nil
}

// CleanUp removes directories that other programs left behind. It works in a goroutine that ends by
// itself or with Close. It must be called once, when nothing is more urgent. If it fails, it calls
// warn from that goroutine.
func (a *Aliases) CleanUp(warn func(error)) {
	ctx, stop := context.WithCancel(context.Background())
	a.stop = stop
	a.janitor.Go(func() {
		if err := routineJanitor(ctx, a.root); err != nil {
			warn(fmt.Errorf("failed to clean up stale arg0 temp dirs: %w", err))
		}
	})
}

// isBelow reports whether path is dir or inside of it.
func isBelow(path, dir string) bool {
	path, dir = filepath.Clean(path), filepath.Clean(dir)
	return path == dir || strings.HasPrefix(path, strings.TrimSuffix(dir, "/")+"/")
}

// randomDirectory makes a directory with a random name.
func randomDirectory(root string) (string, error) {
	const alphabet = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	for range aliasTries {
		name := []byte(aliasPrefix + "XXXXXX")
		for i := len(aliasPrefix); i < len(name); i++ {
			name[i] = alphabet[rand.IntN(len(alphabet))]
		}
		dir := filepath.Join(root, string(name))
		err := os.Mkdir(dir, 0o700)
		if err == nil || !errors.Is(err, fs.ErrExist) {
			return dir, err
		}
	}
	return "", fmt.Errorf("make a directory in %s: every random name that was tried exists", root)
}

// fill creates the lock and the links. The lock file gets its name only after it is locked. Until
// then no other program's cleanup touches the directory.
func (a *Aliases) fill(self string, names []string) error {
	unlocked := filepath.Join(a.dir, lockName+".new")
	lock, err := os.OpenFile(unlocked, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	a.lock = lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock %s: %w", unlocked, err)
	}
	if err := os.Rename(unlocked, filepath.Join(a.dir, lockName)); err != nil {
		return err
	}
	for _, name := range names {
		if err := os.Symlink(self, filepath.Join(a.dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// packagePath returns the directory of programs that a package adds to the PATH, if self is in the
// package's bin directory. Otherwise it returns "".
func packagePath(self string) string {
	bin := filepath.Dir(self)
	if filepath.Base(bin) != "bin" {
		return ""
	}
	dir := filepath.Join(filepath.Dir(bin), "codex-path")
	if st, err := os.Stat(dir); err != nil || !st.IsDir() {
		return ""
	}
	return dir
}

// Path returns a PATH that finds the aliases first, then the programs of this
// program's package, then those of old.
func (a *Aliases) Path(old string) string {
	path := a.path
	if old != "" {
		path = append(path[:len(path):len(path)], old)
	}
	return strings.Join(path, string(os.PathListSeparator))
}

// Close removes the directory. Processes with the directory on their PATH must have exited.
func (a *Aliases) Close() error {
	if a.stop != nil {
		a.stop()
	}
	a.janitor.Wait()
	err := os.RemoveAll(a.dir)
	if a.lock != nil {
		err = errors.Join(err, a.lock.Close())
	}
	return err
}

// routineJanitor removes the directories in root that are no longer used.
func routineJanitor(ctx context.Context, root string) error {
	d, err := os.Open(root)
	if err != nil {
		return err
	}
	defer d.Close()
	for ctx.Err() == nil {
		entries, err := d.ReadDir(janitorBatch)
		for _, e := range entries {
			if !e.IsDir() || ctx.Err() != nil {
				continue
			}
			if err := removeStale(filepath.Join(root, e.Name())); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// removeStale removes a directory whose lock is free. A directory without a lock file does not
// belong to this package, or is not complete yet.
func removeStale(dir string) error {
	lock, err := os.OpenFile(filepath.Join(dir, lockName), os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer lock.Close()
	err = unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	return os.RemoveAll(dir)
}
