package broker

import (
	"errors"
	"strings"

	"golang.org/x/sys/unix"
)

// named is a held directory and a name in it. The name may have slashes behind it.
type named struct {
	dir  int
	name string
	// shared reports whether the call may be made in /dev/shm; nil: it may not.
	shared func(n *named) bool
}

// parent holds the directory of a path, which is argument i, relative to a directory. If there is no such name, it returns nil and how
// the call ends. Otherwise the caller must drop the directory.
func (k *caller) parent(dir, i int) (*named, reply) {
	name, err := k.path(i)
	if err != nil {
		return nil, failed(err)
	}
	return k.parentOf(dir, name)
}

// parentOf is parent for a path that has been copied.
func (k *caller) parentOf(dir int, name string) (*named, reply) {
	base, rest, err := k.base(dir, name)
	if err != nil {
		return nil, failed(err)
	}
	defer drop(base)
	above, last := split(rest)
	switch strings.TrimSuffix(last, "/") {
	case "", ".", "..": // always an error
		return nil, refused
	}
	fd, err := hold(base, above, unix.O_DIRECTORY, 0)
	switch {
	case errors.Is(err, unix.ELOOP):
		return nil, refused
	case err != nil:
		return nil, failed(err)
	}
	return &named{dir: fd, name: last}, reply{}
}

// mayName reports whether names may be made, removed or given to other files, and whether the call may be made now.
func (k *caller) mayName(names ...*named) (bool, error) {
	for _, n := range names {
		at, err := where(n.dir)
		if err != nil {
			return false, err
		}
		shared := at == sharedMemory && n.shared != nil && n.shared(n)
		if !shared && !k.policy.Name(at, strings.TrimSuffix(n.name, "/")) {
			return false, nil
		}
	}
	return true, k.ready()
}

// name makes a call on a name, for which argument i is the path.
func (k *caller) name(dir, i int, do func(n *named) error) reply {
	return k.nameShared(dir, i, nil, do)
}

// nameShared is name for a call that may also be made in /dev/shm.
func (k *caller) nameShared(dir, i int, shared func(n *named) bool, do func(n *named) error) reply {
	n, r := k.parent(dir, i)
	if n == nil {
		return r
	}
	defer drop(n.dir)
	n.shared = shared
	if may, err := k.mayName(n); err != nil {
		return failed(err)
	} else if !may {
		return refused
	}
	return failed(do(n))
}

func (k *caller) mkdir(dir, i int, mode uint32) reply {
	mask, err := k.mask()
	if err != nil {
		return failed(err)
	}
	return k.name(dir, i, func(n *named) error { return unix.Mkdirat(n.dir, n.name, mode&0o1777&^mask) })
}

// mknod makes regular files, FIFOs and sockets. Landlock refuses devices.
func (k *caller) mknod(dir, i int, mode uint32) reply {
	switch mode & unix.S_IFMT {
	case 0, unix.S_IFREG, unix.S_IFIFO, unix.S_IFSOCK:
	default:
		return goesOn
	}
	mask, err := k.mask()
	if err != nil {
		return failed(err)
	}
	return k.name(dir, i, func(n *named) error { return unix.Mknodat(n.dir, n.name, mode&^mask, 0) })
}

func (k *caller) unlink(dir, i, flags int) reply {
	shared := false
	return k.nameShared(dir, i, func(n *named) bool {
		shared = k.shared.ownsName(n)
		return shared
	}, func(n *named) error {
		err := unix.Unlinkat(n.dir, n.name, flags)
		if shared {
			k.shared.forget()
		}
		return err
	})
}

func (k *caller) symlink(target, dir, i int) reply {
	to, err := k.path(target)
	if err != nil {
		return failed(err)
	}
	return k.name(dir, i, func(n *named) error {
		if in, err := k.inRepository(n.dir); err != nil || in {
			return errors.Join(err, unix.EPERM)
		}
		return unix.Symlinkat(to, n.dir, n.name)
	})
}

// inRepository reports whether a held directory is in a granted repository.
func (k *caller) inRepository(dir int) (bool, error) {
	at, err := where(dir)
	return k.policy.Repository(at), err
}

// crosses returns EXDEV if one of two held directories is in a granted repository, and the other is not. Directories do not
// leave or enter one, so the answer stays true.
func (k *caller) crosses(from, to int) error {
	x, err := k.inRepository(from)
	y, err2 := k.inRepository(to)
	switch {
	case err != nil || err2 != nil:
		return errors.Join(err, err2)
	case x != y:
		return unix.EXDEV
	}
	return nil
}

// rename renames argument i to argument j.
func (k *caller) rename(fromDir, i, toDir, j int, flags uint32) reply {
	if flags&^(unix.RENAME_NOREPLACE|unix.RENAME_EXCHANGE) != 0 {
		return goesOn // a whiteout is a device
	}
	from, r := k.parent(fromDir, i)
	if from == nil {
		return r
	}
	defer drop(from.dir)
	to, r := k.parent(toDir, j)
	if to == nil {
		return r
	}
	defer drop(to.dir)
	k.sockets.names.RLock()
	defer k.sockets.names.RUnlock()
	if may, err := k.mayName(from, to); err != nil {
		return failed(err)
	} else if !may {
		return refused
	}
	if err := k.crosses(from.dir, to.dir); err != nil {
		return failed(err)
	}
	return failed(unix.Renameat2(from.dir, from.name, to.dir, to.name, uint(flags)))
}

// link makes a hard link. The file must itself be changeable: through its new name it would be. If it is not, the link fails as one to
// another file system does, and programs copy the file.
func (k *caller) link(fromDir, i, toDir, j, flags int) reply {
	if flags&^(unix.AT_SYMLINK_FOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return failed(unix.EINVAL)
	}
	file, err := k.file(fromDir, i, flags&unix.AT_SYMLINK_FOLLOW != 0, flags&unix.AT_EMPTY_PATH != 0)
	if err != nil {
		return failed(err)
	}
	defer drop(file)
	to, r := k.parent(toDir, j)
	if to == nil {
		return r
	}
	defer drop(to.dir)
	at, err := where(file)
	if err != nil {
		return failed(err)
	}
	own := k.shared.owns(file)
	if !own && !k.policy.Change(at) {
		return failed(unix.EXDEV)
	}
	to.shared = func(*named) bool { return own } // a link replaces nothing
	k.sockets.names.RLock()
	defer k.sockets.names.RUnlock()
	if may, err := k.mayName(to); err != nil {
		return failed(err)
	} else if !may {
		return refused
	}
	in, err := k.inRepository(to.dir)
	switch {
	case err != nil:
		return failed(err)
	case in != k.policy.Repository(at):
		return failed(unix.EXDEV)
	}
	return failed(unix.Linkat(unix.AT_FDCWD, held(file), to.dir, to.name, unix.AT_SYMLINK_FOLLOW))
}

// file holds the file at a path, which is argument i. empty means that an empty path stands for the file of the descriptor dir.
func (k *caller) file(dir, i int, follow, empty bool) (int, error) {
	name, err := k.path(i)
	if err != nil {
		return -1, err
	}
	if name == "" && empty {
		return k.start(dir)
	}
	return k.fileAt(dir, name, follow)
}

// fileAt is file for a path that has been copied.
func (k *caller) fileAt(dir int, name string, follow bool) (int, error) {
	base, rest, err := k.base(dir, name)
	if err != nil || rest == "" {
		return base, err
	}
	defer drop(base)
	flags := 0
	if !follow {
		flags = unix.O_NOFOLLOW
	}
	return hold(base, rest, flags, 0)
}

// start holds the file of a descriptor, or the working directory.
func (k *caller) start(dir int) (int, error) {
	if dir == unix.AT_FDCWD {
		return unix.Open(k.proc("/cwd"), unix.O_PATH|unix.O_CLOEXEC, 0)
	}
	return k.descriptor(dir)
}
