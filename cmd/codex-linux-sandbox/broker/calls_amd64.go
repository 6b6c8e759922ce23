package broker

import "golang.org/x/sys/unix"

// olderCalls are the calls that only this architecture has.
var olderCalls = map[uint32]func(k *caller) reply{
	unix.SYS_OPEN: func(k *caller) reply { return k.open(cwd, 0, opening{flags: int(k.uint(1)), mode: k.uint(2)}) },
	unix.SYS_CREAT: func(k *caller) reply {
		return k.open(cwd, 0, opening{flags: unix.O_CREAT | unix.O_WRONLY | unix.O_TRUNC, mode: k.uint(1)})
	},
	unix.SYS_MKDIR:    func(k *caller) reply { return k.mkdir(cwd, 0, k.uint(1)) },
	unix.SYS_MKNOD:    func(k *caller) reply { return k.mknod(cwd, 0, k.uint(1)) },
	unix.SYS_UNLINK:   func(k *caller) reply { return k.unlink(cwd, 0, 0) },
	unix.SYS_RMDIR:    func(k *caller) reply { return k.unlink(cwd, 0, unix.AT_REMOVEDIR) },
	unix.SYS_SYMLINK:  func(k *caller) reply { return k.symlink(0, cwd, 1) },
	unix.SYS_LINK:     func(k *caller) reply { return k.link(cwd, 0, cwd, 1, 0) },
	unix.SYS_RENAME:   func(k *caller) reply { return k.rename(cwd, 0, cwd, 1, 0) },
	unix.SYS_RENAMEAT: func(k *caller) reply { return k.rename(k.int(0), 1, k.int(2), 3, 0) },

	unix.SYS_CHMOD:  func(k *caller) reply { return k.changeAt(cwd, 0, 0, chmod(k.uint(1))) },
	unix.SYS_CHOWN:  func(k *caller) reply { return k.changeAt(cwd, 0, 0, chown(k.int(1), k.int(2))) },
	unix.SYS_LCHOWN: func(k *caller) reply { return k.changeAt(cwd, 0, noFollow, chown(k.int(1), k.int(2))) },
	unix.SYS_UTIME:  (*caller).utime,
	unix.SYS_UTIMES: func(k *caller) reply {
		do, err := k.settingTimes(1, 1000)
		if err != nil {
			return failed(err)
		}
		return k.changeAt(cwd, 0, 0, do)
	},
	unix.SYS_FUTIMESAT: (*caller).futimesat,
}

// utime has two times in whole seconds.
func (k *caller) utime() reply {
	do, err := k.settingTimes(1, 0)
	if err != nil {
		return failed(err)
	}
	return k.changeAt(cwd, 0, 0, do)
}

func (k *caller) futimesat() reply {
	do, err := k.settingTimes(2, 1000)
	if err != nil {
		return failed(err)
	}
	if k.Args[1] == 0 {
		return k.changeFD(do)
	}
	return k.changeAt(k.int(0), 1, 0, do)
}
