package main

import "golang.org/x/sys/unix"

func init() {
	oldRaces = func() []*race {
		return []*race{{"a directory: creat", func(a *arena, _ int) error {
			fd, errno := raw(unix.SYS_CREAT, fixed(a.spot+"/config"), 0o644)
			return written(fd, errno)
		}, exchangeSpot}, {"a directory: utime", func(a *arena, _ int) error {
			_, errno := raw(unix.SYS_UTIME, fixed(a.spot+"/config"), 0)
			return failure(errno)
		}, exchangeSpot}, {"a directory: lchown", func(a *arena, _ int) error {
			_, errno := raw(unix.SYS_LCHOWN, fixed(a.spot+"/config"), uintptr(unix.Getuid()), uintptr(unix.Getgid()))
			return failure(errno)
		}, exchangeSpot}, {"a descriptor: futimesat", func(a *arena, _ int) error {
			_, errno := raw(unix.SYS_FUTIMESAT, uintptr(a.fd+1), 0, 0)
			return failure(errno)
		}, exchangeDescriptors}}
	}
}
