package mediate

import (
	"encoding/binary"
	"slices"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A program in a sandbox can confine its children further, as browsers and test runners do: by Landlock, without the right
// to connect by TCP, or with abstract sockets in scope only. The kernel looks at the process that connects. That is the
// launcher, which no such domain restricts, and so a connection of the launcher would undo the child's confinement.
//
// The kernel tells nobody in which domain a process is. So the filter stops landlock_create_ruleset too, and the launcher makes
// the ruleset. If it could restrict connections, the launcher first marks the process by a resource limit that the kernel
// does not use any more: its children inherit the limit, and without a privilege nobody raises it again. For a process
// with the mark the launcher makes no connections.
//
// The mark comes with the ruleset, and not with landlock_restrict_self, because nothing tells what the ruleset
// restricts afterwards. xz confines itself as to files, and its caller continues connecting.

// marking is the resource limit that marks a process: RLIMIT_LOCKS, which is unlimited and unused since Linux 2.4.
const marking = unix.RLIMIT_LOCKS

// rulesetHeader is the part of struct landlock_ruleset_attr that is known here: three words.
const rulesetHeader = 3 * 8

// fileRights are the rights to files of a ruleset that restrict no connection: all of version 8. Newer ones, such as the
// right to look up a Unix socket, may.
const fileRights = 1<<16 - 1

// restrictsConnections reports whether a ruleset with these attributes may forbid a connection.
func restrictsConnections(attr []byte) bool {
	var words [rulesetHeader]byte
	newer := attr[copy(words[:], attr):]
	files, net, scoped := binary.NativeEndian.Uint64(words[:]), binary.NativeEndian.Uint64(words[8:]), binary.NativeEndian.Uint64(words[16:])
	return files&^fileRights != 0 || net != 0 || scoped&^unix.LANDLOCK_SCOPE_SIGNAL != 0 ||
		slices.ContainsFunc(newer, func(b byte) bool { return b != 0 })
}

// ruleset answers landlock_create_ruleset, with the result of the call if it does not fail.
func (c *Connector) ruleset(n *notification) (int, syscall.Errno) {
	at, size, flags := n.args[0], n.args[1], uint32(n.args[2])
	if at == 0 && size == 0 { // a question, as for the version
		result, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, uintptr(flags))
		return int(result), errno
	}
	switch {
	case flags != 0:
		return 0, unix.EINVAL
	case size > uint64(unix.Getpagesize()):
		return 0, unix.E2BIG
	}
	attr := make([]byte, max(size, 1))
	if err := readMemory(int(n.pid), at, attr[:size]); err != nil {
		return 0, errnoOf(err)
	}
	fd, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr[0])), uintptr(size), 0)
	if errno != 0 {
		return 0, errno
	}
	defer unix.Close(int(fd))
	if restrictsConnections(attr) {
		if err := unix.Prlimit(int(n.pid), marking, &unix.Rlimit{}, nil); err != nil {
			return 0, errnoOf(err)
		}
	}
	return c.give(n, int(fd), unix.O_CLOEXEC)
}

// unmarked returns an error if a thread belongs to a process that may not connect.
func unmarked(tid int) error {
	var limit unix.Rlimit
	if err := unix.Prlimit(tid, marking, nil, &limit); err != nil {
		return err
	}
	if limit.Max == 0 {
		return errConfined
	}
	return nil
}

// errConfined is the error of a connection of a process that has confined itself. The kernel says EACCES for TCP and EPERM
// for abstract sockets.
const errConfined = unix.EACCES
