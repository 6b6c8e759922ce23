package main

import (
	"os"

	"golang.org/x/sys/unix"
)

func init() {
	me, group := uintptr(os.Getuid()), uintptr(os.Getgid())
	two := func(nr uintptr, pick func(f, d, made, own string) (string, string)) func(string, string, string, string) error {
		return func(f, d, made, own string) error {
			first, second := pick(f, d, made, own)
			_, errno := raw(nr, text(first), text(second))
			return failure(errno)
		}
	}
	made := func(nr uintptr, more ...uintptr) func(string, string, string, string) error {
		return func(_, _, made, _ string) error { return by(nr, more...)(made, "", "", "") }
	}
	oldPathCalls = []pathCall{
		{"old open", func(f, _, _, _ string) error {
			fd, errno := raw(unix.SYS_OPEN, text(f), unix.O_WRONLY|unix.O_CLOEXEC, 0)
			return written(fd, errno)
		}},
		{"creat", func(_, _, made, _ string) error {
			fd, errno := raw(unix.SYS_CREAT, text(made), 0o600)
			return written(fd, errno)
		}},
		{"creat over", func(f, _, _, _ string) error {
			fd, errno := raw(unix.SYS_CREAT, text(f), 0o600)
			return written(fd, errno)
		}},
		{"mkdir", made(unix.SYS_MKDIR, 0o755)}, {"mknod", made(unix.SYS_MKNOD, unix.S_IFREG|0o600, 0)},
		{"rmdir", func(_, d, _, _ string) error { return by(unix.SYS_RMDIR)(d, "", "", "") }},
		{"unlink", by(unix.SYS_UNLINK)},
		{"symlink", two(unix.SYS_SYMLINK, func(_, _, made, _ string) (string, string) { return "x", made })},
		{"link", two(unix.SYS_LINK, func(_, _, made, own string) (string, string) { return own, made })},
		{"rename", two(unix.SYS_RENAME, func(_, _, made, own string) (string, string) { return own, made })},
		{"rename out", two(unix.SYS_RENAME, func(f, _, _, own string) (string, string) { return f, own + ".moved" })},
		{"chmod", by(unix.SYS_CHMOD, 0o640)}, {"chown", by(unix.SYS_CHOWN, me, group)}, {"lchown", by(unix.SYS_LCHOWN, me, group)},
		{"utime", by(unix.SYS_UTIME, 0)}, {"utimes", by(unix.SYS_UTIMES, 0)}, {"futimesat", from(unix.SYS_FUTIMESAT, 0)},
	}
}

func init() {
	oldDescriptorCalls = func(fd int) {
		_, errno := raw(unix.SYS_FUTIMESAT, uintptr(fd), 0, 0)
		report("futimesat", errno)
	}
}
