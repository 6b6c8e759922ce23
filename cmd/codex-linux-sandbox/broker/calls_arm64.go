package broker

import "golang.org/x/sys/unix"

// olderCalls are the calls that the kernel has for compatibility only.
var olderCalls = map[uint32]func(k *caller) reply{
	unix.SYS_RENAMEAT: func(k *caller) reply { return k.rename(k.int(0), 1, k.int(2), 3, 0) },
}
