package mediate

import (
	"encoding/binary"
	"slices"
	"syscall"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"golang.org/x/sys/unix"
)

// A program in a sandbox can confine its children further by Landlock, as browsers and test runners do. It can take away the
// right to connect by TCP, or restrict abstract sockets to its scope. The kernel checks the process that connects. Here that
// process is the launcher, which such a domain does not restrict. So a connection of the launcher would undo the child's
// confinement.
//
// The kernel does not report the Landlock domain of a process. So the filter stops landlock_create_ruleset too, and the
// launcher creates the ruleset. If the ruleset may restrict connections, the launcher first marks the process by a resource
// limit that the kernel does not use any more. Its children inherit the limit, and a process without privileges cannot raise it
// again. The launcher makes no connections for a process with the mark.
//
// The mark is set when the ruleset is created, and not at landlock_restrict_self, because nothing reports the content of a
// ruleset afterwards. A ruleset that restricts only files sets no mark: xz confines itself in this way, and its caller
// continues to connect.

// marking is the resource limit that marks a process: RLIMIT_LOCKS. Its default is unlimited, and the kernel has
// not used it since Linux 2.4.
const marking = unix.RLIMIT_LOCKS

// rulesetHeader is the size of the known part of struct landlock_ruleset_attr: three words.
const rulesetHeader = 3 * 8

// fileRights are the file rights that cannot restrict a connection: all rights of version 8. Newer ones, such as the
// right to look up a Unix socket, may restrict one.
const fileRights = 1<<16 - 1

// restrictsConnections reports whether a ruleset with these attributes may forbid a connection.
func restrictsConnections(attr []byte) bool {
	var words [rulesetHeader]byte
	newer := attr[copy(words[:], attr):]
	files, net, scoped := binary.NativeEndian.Uint64(words[:]), binary.NativeEndian.Uint64(words[8:]), binary.NativeEndian.Uint64(words[16:])
	return files&^fileRights != 0 || net != 0 || scoped&^unix.LANDLOCK_SCOPE_SIGNAL != 0 ||
		slices.ContainsFunc(newer, func(b byte) bool { return b != 0 })
}

// ruleset answers landlock_create_ruleset. If it succeeds, it returns the result of the call.
func (c *Connector) ruleset(n *notification) (int, syscall.Errno) {
	at, size, flags := n.Args[0], n.Args[1], uint32(n.Args[2])
	if at == 0 && size == 0 { // a query, for example of the version
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
	if err := notify.ReadMemory(int(n.TID), at, attr[:size]); err != nil {
		return 0, errnoOf(err)
	}
	fd, _, errno := syscall.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr[0])), uintptr(size), 0)
	if errno != 0 {
		return 0, errno
	}
	defer unix.Close(int(fd))
	if restrictsConnections(attr) {
		if err := unix.Prlimit(int(n.TID), marking, &unix.Rlimit{}, nil); err != nil {
			return 0, errnoOf(err)
		}
	}
	return c.listener.Give(n.Call, int(fd), unix.O_CLOEXEC)
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

// errConfined is the error for a connection of a process that has confined itself. The kernel's own error is EACCES for
// TCP and EPERM for abstract sockets.
const errConfined = unix.EACCES
