package broker

import "golang.org/x/sys/unix"

const cwd, noFollow = unix.AT_FDCWD, unix.AT_SYMLINK_NOFOLLOW

// calls has how each call is made that the filter stops (plan.BrokerCalls). The calls of one architecture are in olderCalls.
var calls = withOlder(map[uint32]func(k *caller) reply{
	unix.SYS_OPENAT:  (*caller).openat,
	unix.SYS_OPENAT2: (*caller).openat2,

	unix.SYS_MKDIRAT:   func(k *caller) reply { return k.mkdir(k.int(0), 1, k.uint(2)) },
	unix.SYS_MKNODAT:   func(k *caller) reply { return k.mknod(k.int(0), 1, k.uint(2)) },
	unix.SYS_UNLINKAT:  func(k *caller) reply { return k.unlink(k.int(0), 1, k.int(2)) },
	unix.SYS_SYMLINKAT: func(k *caller) reply { return k.symlink(0, k.int(1), 2) },
	unix.SYS_LINKAT:    func(k *caller) reply { return k.link(k.int(0), 1, k.int(2), 3, k.int(4)) },
	unix.SYS_RENAMEAT2: func(k *caller) reply { return k.rename(k.int(0), 1, k.int(2), 3, k.uint(4)) },

	unix.SYS_TRUNCATE:     (*caller).truncate,
	unix.SYS_FCHMOD:       func(k *caller) reply { return k.changeFD(chmod(k.uint(1))) },
	unix.SYS_FCHMODAT:     func(k *caller) reply { return k.changeAt(k.int(0), 1, 0, chmod(k.uint(2))) },
	unix.SYS_FCHMODAT2:    func(k *caller) reply { return k.changeAt(k.int(0), 1, k.int(3), chmod(k.uint(2))) },
	unix.SYS_FCHOWN:       func(k *caller) reply { return k.changeFD(chown(k.int(1), k.int(2))) },
	unix.SYS_FCHOWNAT:     func(k *caller) reply { return k.changeAt(k.int(0), 1, k.int(4), chown(k.int(2), k.int(3))) },
	unix.SYS_UTIMENSAT:    (*caller).utimensat,
	unix.SYS_SETXATTR:     func(k *caller) reply { return k.setxattr(k.byPath(0)) },
	unix.SYS_LSETXATTR:    func(k *caller) reply { return k.setxattr(k.byPath(noFollow)) },
	unix.SYS_FSETXATTR:    func(k *caller) reply { return k.setxattr(k.changeFD) },
	unix.SYS_REMOVEXATTR:  func(k *caller) reply { return k.removexattr(k.byPath(0)) },
	unix.SYS_LREMOVEXATTR: func(k *caller) reply { return k.removexattr(k.byPath(noFollow)) },
	unix.SYS_FREMOVEXATTR: func(k *caller) reply { return k.removexattr(k.changeFD) },

	unix.SYS_SOCKET:  (*caller).socket,
	unix.SYS_BIND:    (*caller).bind,
	unix.SYS_CONNECT: (*caller).connect,

	// Before version 6 of Landlock.
	unix.SYS_KILL:              (*caller).kill,
	unix.SYS_TKILL:             (*caller).tkill,
	unix.SYS_TGKILL:            func(k *caller) reply { return k.tgkill(k.int(0), k.int(1), unix.Signal(k.int(2))) },
	unix.SYS_PIDFD_SEND_SIGNAL: (*caller).pidfdSignal,
	unix.SYS_RT_SIGQUEUEINFO:   func(k *caller) reply { return k.queue(k.int(0), unix.Signal(k.int(1)), k.Args[2]) },
	unix.SYS_RT_TGSIGQUEUEINFO: func(k *caller) reply { return k.queue(k.int(0), unix.Signal(k.int(2)), k.Args[3]) },

	unix.SYS_UMASK: func(k *caller) reply {
		k.umaskCalls.Store(true)
		return goesOn
	},
})

func withOlder(all map[uint32]func(k *caller) reply) map[uint32]func(k *caller) reply {
	for number, handle := range olderCalls {
		all[number] = handle
	}
	return all
}
