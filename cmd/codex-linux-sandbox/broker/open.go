package broker

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"golang.org/x/sys/unix"
)

// opening are the arguments of an open.
type opening struct {
	flags   int
	mode    uint32
	resolve uint64
}

func (k *caller) openat() reply {
	return k.open(k.int(0), 1, opening{flags: int(k.uint(2)), mode: k.uint(3)})
}

// open opens a file for a call whose path is argument i.
func (k *caller) open(dir, i int, o opening) reply {
	name, err := k.path(i)
	if err != nil {
		return failed(err)
	}
	if _, _, own := k.ownDescriptor(name); own && o.resolve&(unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_NO_MAGICLINKS) != 0 {
		return failed(unix.ELOOP) // base follows the link of /proc
	}
	for range maxTries {
		base, rest, err := k.base(dir, name)
		if err != nil {
			return failed(err)
		}
		r, again := k.openOnce(base, rest, o)
		drop(base)
		if !again {
			return r
		}
	}
	return failed(unix.EAGAIN)
}

// resolveCached is RESOLVE_CACHED.
const resolveCached = 0x20

// openat2 is always stopped, because its flags are in memory.
func (k *caller) openat2() reply {
	size := k.Args[3]
	switch {
	case size < unix.SizeofOpenHow:
		return failed(unix.EINVAL)
	case size > maxHow:
		return failed(unix.E2BIG)
	}
	b := make([]byte, size)
	if err := notify.ReadMemory(int(k.TID), k.Args[2], b); err != nil {
		return failed(err)
	}
	if slices.ContainsFunc(b[unix.SizeofOpenHow:], func(c byte) bool { return c != 0 }) {
		return failed(unix.E2BIG)
	}
	how := unix.OpenHow{Flags: binary.NativeEndian.Uint64(b), Mode: binary.NativeEndian.Uint64(b[8:]), Resolve: binary.NativeEndian.Uint64(b[16:])}
	if how.Flags&unix.O_PATH != 0 || how.Flags&changing == 0 || how.Flags>>32 != 0 || how.Mode&^0o7777 != 0 {
		return goesOn // the kernel reads or refuses; Landlock refuses a change of the flags
	}
	switch {
	case how.Resolve&unix.RESOLVE_IN_ROOT != 0:
		return failed(unix.ENOSYS)
	case how.Resolve&resolveCached != 0:
		return failed(unix.EAGAIN)
	case how.Resolve&unix.RESOLVE_BENEATH != 0:
		if name, err := k.path(1); err != nil || strings.HasPrefix(name, "/") {
			return failed(unix.EXDEV)
		}
	}
	return k.open(k.int(0), 1, opening{flags: int(how.Flags), mode: uint32(how.Mode), resolve: how.Resolve})
}

// changing are the flags of an open that may change a file. The filter stops no other.
const changing = unix.O_WRONLY | unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_TMPFILE&^unix.O_DIRECTORY

// native lets the kernel make an open. Landlock refuses what may not be changed. Before version 3 it does not see that an open for
// reading truncates.
func (k *caller) native(o opening) reply {
	if mode := o.flags & unix.O_ACCMODE; k.abi < abiTruncate && o.flags&unix.O_TRUNC != 0 && mode != unix.O_WRONLY && mode != unix.O_RDWR {
		return failed(unix.EACCES)
	}
	return refused
}

// abiTruncate is the version of Landlock that restricts truncation.
const abiTruncate = 3

// openOnce opens a file. again means that the file has appeared or vanished meanwhile.
func (k *caller) openOnce(base int, name string, o opening) (r reply, again bool) {
	owned := -1
	defer func() { drop(owned) }()
	for range maxLinks {
		if name == "" { // the file of a descriptor
			return k.openHeld(base, o)
		}
		follow := 0
		if o.flags&unix.O_NOFOLLOW != 0 || o.flags&unix.O_CREAT != 0 && o.flags&unix.O_EXCL != 0 {
			follow = unix.O_NOFOLLOW
		}
		file, err := hold(base, name, follow|o.flags&unix.O_DIRECTORY, o.resolve)
		if err == nil {
			r, again = k.openHeld(file, o)
			drop(file)
			return r, again
		}
		switch {
		case errors.Is(err, unix.ELOOP):
			return k.native(o), false
		case !errors.Is(err, unix.ENOENT) || o.flags&unix.O_CREAT == 0:
			return failed(err), false
		}
		dirName, last := split(name)
		if strings.HasSuffix(last, "/") {
			return failed(unix.EISDIR), false
		}
		dir, err := hold(base, dirName, unix.O_DIRECTORY, o.resolve)
		if errors.Is(err, unix.ELOOP) {
			return k.native(o), false
		}
		if err != nil {
			return failed(err), false
		}
		drop(owned)
		base, owned = dir, dir
		target, err := readlinkat(dir, last)
		if err != nil {
			return k.create(dir, last, o)
		}
		// A link that leads nowhere: the file is made at its end.
		switch {
		case o.flags&unix.O_EXCL != 0:
			return failed(unix.EEXIST), false
		case o.flags&unix.O_NOFOLLOW != 0 || o.resolve&(unix.RESOLVE_NO_SYMLINKS|unix.RESOLVE_BENEATH) != 0:
			return failed(unix.ELOOP), false
		}
		name = target
	}
	return failed(unix.ELOOP), false
}

// readlinkat reads the target of a link. It returns an error if the name is that of no link.
func readlinkat(dir int, name string) (string, error) {
	buf := make([]byte, maxPath)
	n, err := unix.Readlinkat(dir, name, buf)
	if err == nil && n == 0 {
		err = unix.ENOENT
	}
	return string(buf[:max(n, 0)]), err
}

// create makes a file in a held directory.
func (k *caller) create(dir int, name string, o opening) (r reply, again bool) {
	at, err := where(dir)
	if err != nil {
		return failed(err), false
	}
	shared := at == sharedMemory && !k.policy.Change(at)
	switch {
	case shared:
		if err := k.shared.room(); err != nil {
			return failed(err), false
		}
	case !k.policy.Name(at, name):
		return k.native(o), false
	}
	mask, err := k.mask()
	if err != nil {
		return failed(err), false
	}
	if err := k.ready(); err != nil {
		return failed(err), false
	}
	fd, err := unix.Openat(dir, name, o.flags|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC|unix.O_NOCTTY, o.mode&0o7777&^mask)
	if errors.Is(err, unix.EEXIST) && o.flags&unix.O_EXCL == 0 {
		return reply{}, true
	}
	if err == nil && shared {
		if err = k.shared.add(fd); err != nil {
			drop(fd)
		}
	}
	return opened(fd, err, o), false
}

func opened(fd int, err error, o opening) reply {
	if err != nil {
		return failed(err)
	}
	return reply{file: &fd, flags: o.flags & unix.O_CLOEXEC}
}

// ofProcesses reports whether a held file is one of /proc, or cannot be looked at. A writable root may contain a mounted /proc, in which
// self is the broker: it would open its own memory for the command.
func ofProcesses(file int) bool {
	var fs unix.Statfs_t
	return unix.Fstatfs(file, &fs) != nil || fs.Type == unix.PROC_SUPER_MAGIC
}

// openHeld opens a held file as the caller wants it.
func (k *caller) openHeld(file int, o opening) (r reply, again bool) {
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return failed(err), false
	}
	temporary := o.flags&unix.O_TMPFILE == unix.O_TMPFILE
	switch {
	case o.flags&unix.O_CREAT != 0 && o.flags&unix.O_EXCL != 0:
		return failed(unix.EEXIST), false
	case st.Mode&unix.S_IFMT == unix.S_IFLNK:
		return failed(unix.ELOOP), false
	case st.Mode&unix.S_IFMT == unix.S_IFDIR && !temporary:
		return failed(unix.EISDIR), false
	case st.Mode&unix.S_IFMT == unix.S_IFCHR:
		if r, mine := k.openTerminal(file, o); mine {
			return r, false
		}
		return k.native(o), false
	case !slices.Contains([]uint32{unix.S_IFREG, unix.S_IFDIR, unix.S_IFIFO}, st.Mode&unix.S_IFMT):
		return k.native(o), false
	}
	at, err := where(file)
	if err != nil {
		return failed(err), false
	}
	if !k.policy.Change(at) && !k.shared.owns(file) || ofProcesses(file) {
		return k.native(o), false
	}
	mask := uint32(0)
	if temporary {
		if mask, err = k.mask(); err != nil {
			return failed(err), false
		}
	}
	if err := k.ready(); err != nil {
		return failed(err), false
	}
	flags := o.flags&^(unix.O_CREAT|unix.O_NOFOLLOW) | unix.O_CLOEXEC | unix.O_NOCTTY
	if !temporary {
		flags &^= unix.O_EXCL
	}
	if st.Mode&unix.S_IFMT == unix.S_IFIFO {
		return k.openFIFO(file, o, flags), false
	}
	fd, err := unix.Open(held(file), flags, o.mode&0o7777&^mask)
	return opened(fd, err, o), false
}
