package broker

import (
	"os"
	"strings"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"golang.org/x/sys/unix"
)

// Landlock does not restrict attributes. So these calls never go on, not even for a descriptor: it may be open for reading only.

// change makes a call that changes a held file. do gets a path that leads to the file and follows no link.
func (k *caller) change(file int, err error, do func(at string) error) reply {
	if err != nil {
		return failed(err)
	}
	defer drop(file)
	at, err := where(file)
	if err != nil {
		return failed(err)
	}
	if !k.policy.Change(at) && !isNameless(file, at) && !k.shared.owns(file) {
		return failed(unix.EPERM)
	}
	if err := k.ready(); err != nil {
		return failed(err)
	}
	return failed(do(held(file)))
}

// isNameless reports whether a held file is in no directory: a pipe, a socket or a file in memory. Its name in /proc is not that of
// another file. A kind of name that is not listed is none of these.
func isNameless(file int, at string) bool {
	for _, kind := range []string{"pipe:", "socket:", "anon_inode:"} {
		if strings.HasPrefix(at, kind) {
			return true
		}
	}
	var st unix.Stat_t
	return strings.HasPrefix(at, "/memfd:") && strings.HasSuffix(at, deleted) && unix.Fstat(file, &st) == nil && st.Nlink == 0
}

// changeAt changes the file at a path, which is argument i, with the flags AT_SYMLINK_NOFOLLOW and AT_EMPTY_PATH.
func (k *caller) changeAt(dir, i, flags int, do func(at string) error) reply {
	if flags&^(unix.AT_SYMLINK_NOFOLLOW|unix.AT_EMPTY_PATH) != 0 {
		return failed(unix.EINVAL)
	}
	file, err := k.file(dir, i, flags&unix.AT_SYMLINK_NOFOLLOW == 0, flags&unix.AT_EMPTY_PATH != 0)
	return k.change(file, err, do)
}

// changeFD changes the file of a descriptor, which is argument 0.
func (k *caller) changeFD(do func(at string) error) reply {
	file, err := k.descriptor(k.int(0))
	return k.change(file, err, do)
}

func chmod(mode uint32) func(at string) error {
	return func(at string) error { return unix.Fchmodat(unix.AT_FDCWD, at, mode&0o7777, 0) }
}

// chown changes the owner of a file. Root may not give it away, because the broker has no capabilities: then nothing is done, without an
// error, as in a view of root (plan.Rules.RootOnly).
func chown(uid, gid int) func(at string) error {
	return func(at string) error {
		err := unix.Fchownat(unix.AT_FDCWD, at, uid, gid, 0)
		if err == unix.EPERM && os.Geteuid() == 0 {
			return nil
		}
		return err
	}
}

func (k *caller) truncate() reply {
	size := int64(k.Args[1])
	file, err := k.file(unix.AT_FDCWD, 0, true, false)
	return k.change(file, err, func(at string) error { return unix.Truncate(at, size) })
}

// settingTimes returns what sets the times of a file. Argument i is the address of two times, each with its seconds and, if fraction is
// not 0, with parts of a second of fraction ns. No address means now.
func (k *caller) settingTimes(i int, fraction int64) (func(at string) error, error) {
	if k.Args[i] == 0 {
		return utimes(nil), nil
	}
	words := make([]int64, 2)
	if fraction != 0 {
		words = make([]int64, 4)
	}
	if err := notify.ReadMemory(int(k.TID), k.Args[i], unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), 8*len(words))); err != nil {
		return nil, err
	}
	if fraction == 0 {
		words = []int64{words[0], 0, words[1], 0}
	}
	var times [2]unix.Timespec
	for j := range times {
		part := words[2*j+1]
		if fraction > 1 && (part < 0 || part >= 1e9/fraction) {
			return nil, unix.EINVAL
		}
		times[j] = unix.Timespec{Sec: words[2*j], Nsec: part * max(1, fraction)}
	}
	return utimes(&times), nil
}

func utimes(times *[2]unix.Timespec) func(at string) error {
	return func(at string) error {
		name, err := unix.BytePtrFromString(at)
		if err != nil {
			return err
		}
		dir := unix.AT_FDCWD
		_, _, errno := unix.Syscall6(unix.SYS_UTIMENSAT, uintptr(dir), uintptr(unsafe.Pointer(name)), uintptr(unsafe.Pointer(times)), 0, 0, 0)
		if errno != 0 {
			return errno
		}
		return nil
	}
}

func (k *caller) utimensat() reply {
	do, err := k.settingTimes(2, 1)
	if err != nil {
		return failed(err)
	}
	if k.Args[1] == 0 { // futimens
		if k.int(0) == unix.AT_FDCWD {
			return failed(unix.EFAULT)
		}
		return k.changeFD(do)
	}
	return k.changeAt(k.int(0), 1, k.int(3), do)
}

// setxattr sets an extended attribute. set gets how to find the file.
func (k *caller) setxattr(find func(do func(at string) error) reply) reply {
	name, value, err := k.attribute()
	if err != nil {
		return failed(err)
	}
	flags := k.int(4)
	return find(func(at string) error { return unix.Setxattr(at, name, value, flags) })
}

// attribute copies the name and the value of an extended attribute, which are arguments 1 to 3.
func (k *caller) attribute() (name string, value []byte, err error) {
	if k.Args[3] > maxAttribute {
		return "", nil, unix.E2BIG
	}
	if name, err = k.attributeName(); err != nil {
		return "", nil, err
	}
	value = make([]byte, k.Args[3])
	return name, value, notify.ReadMemory(int(k.TID), k.Args[2], value)
}

func (k *caller) attributeName() (string, error) {
	name, err := k.text(k.Args[1], maxAttributeName)
	if err == unix.ENAMETOOLONG || err == nil && name == "" {
		err = unix.ERANGE
	}
	return name, err
}

func (k *caller) removexattr(find func(do func(at string) error) reply) reply {
	name, err := k.attributeName()
	if err != nil {
		return failed(err)
	}
	return find(func(at string) error { return unix.Removexattr(at, name) })
}

// byPath finds the file at the path in argument 0.
func (k *caller) byPath(flags int) func(do func(at string) error) reply {
	return func(do func(at string) error) reply { return k.changeAt(unix.AT_FDCWD, 0, flags, do) }
}
