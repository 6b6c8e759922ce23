package main

import "golang.org/x/sys/unix"

// int80 makes a system call without arguments through the interface of i386.
func int80(nr uintptr) uintptr

const i386Getpid = 20

func init() {
	attacks["i386"] = func([]string) {
		if pid := int80(i386Getpid); pid == uintptr(unix.Getpid()) {
			breach("i386 getpid answered")
			return
		}
		held("i386 getpid", unix.ENOSYS)
	}
	attacks["x32"] = func([]string) {
		const bit = 0x40000000
		call("x32 getpid", bit|unix.SYS_GETPID)
		call("x32 ptrace", bit|521)
		call("x32 socket", bit|unix.SYS_SOCKET, unix.AF_INET, unix.SOCK_STREAM)
		call("x32 socket for datagrams", bit|unix.SYS_SOCKET, unix.AF_UNIX, unix.SOCK_DGRAM)
		call("x32 pair for datagrams", bit|unix.SYS_SOCKETPAIR, unix.AF_UNIX, unix.SOCK_DGRAM, 0, pointer(&[2]int32{}))
		call("x32 unshare", bit|unix.SYS_UNSHARE, unix.CLONE_NEWUSER)
		call("x32 mount", bit|unix.SYS_MOUNT)
		call("all bits", ^uintptr(0))
	}
	legacy = func(path string) {
		call("chmod", unix.SYS_CHMOD, text(path), 0o600)
		call("utime", unix.SYS_UTIME, text(path), 0)
		call("utimes", unix.SYS_UTIMES, text(path), 0)
		call("futimesat", unix.SYS_FUTIMESAT, at, text(path), 0)
	}
}
