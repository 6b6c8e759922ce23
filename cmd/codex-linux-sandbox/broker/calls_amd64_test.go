package broker_test

import "golang.org/x/sys/unix"

// older are the calls that only this architecture has.
var older = []call{
	{"open, the call", aFile, raw(unix.SYS_OPEN, unix.O_WRONLY)},
	{"creat", aFile, raw(unix.SYS_CREAT, 0o644)},
	{"chmod, the call", aFile, raw(unix.SYS_CHMOD, 0o600)},
	{"utime", aFile, raw(unix.SYS_UTIME, 0)},
	{"utimes", aFile, raw(unix.SYS_UTIMES, 0)},
	{"mkdir, the call", nothing, raw(unix.SYS_MKDIR, 0o755)},
	{"mknod, the call", nothing, raw(unix.SYS_MKNOD, unix.S_IFIFO|0o644, 0)},
	{"unlink, the call", aFile, raw(unix.SYS_UNLINK)},
	{"rmdir, the call", func(at string) error { return unix.Mkdir(at, 0o755) }, raw(unix.SYS_RMDIR)},
}
