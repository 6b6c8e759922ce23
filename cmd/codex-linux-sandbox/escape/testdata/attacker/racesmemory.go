package main

import (
	"path/filepath"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// memoryRaces exchange the path, or the flags, after the call was made.
func memoryRaces() []*race {
	var all []*race
	// add adds a race about a name in the directory o, which becomes the guarded directory. call gets the path.
	add := func(what, name string, call func(a *arena, n int, path uintptr) error) {
		var once sync.Once
		var path *flipping
		all = append(all, &race{"memory: " + what, func(a *arena, n int) error {
			once.Do(func() { path = a.path(name) })
			return call(a, n, path.pointer())
		}, flip('g')})
	}
	add("open", "config", func(_ *arena, _ int, path uintptr) error {
		fd, errno := raw(unix.SYS_OPENAT, at, path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return written(fd, errno)
	})
	add("create", "new", func(a *arena, _ int, path uintptr) error {
		fd, errno := raw(unix.SYS_OPENAT, at, path, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o644)
		_ = unix.Unlink(a.own + "/new")
		return written(fd, errno)
	})
	add("chmod", "config", func(_ *arena, n int, path uintptr) error {
		_, errno := raw(unix.SYS_FCHMODAT, at, path, 0o600+uintptr(n&7))
		return failure(errno)
	})
	add("utimensat", "config", func(_ *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_UTIMENSAT, at, path, 0, 0)
		return failure(errno)
	})
	add("setxattr", "config", func(_ *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_SETXATTR, path, attribute, value, 1, 0)
		return failure(errno)
	})
	add("rename", "hooks", func(a *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_RENAMEAT2, at, path, at, stolen(a), 0)
		if errno == 0 {
			_ = unix.Rename(a.dir+"/stolen", a.own+"/hooks")
		}
		return failure(errno)
	})
	add("unlink", "config", func(a *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_UNLINKAT, at, path, 0)
		_ = open(a.own+"/config", unix.O_WRONLY|unix.O_CREAT)
		return failure(errno)
	})
	add("link out", "config", func(a *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_LINKAT, at, path, at, stolen(a), 0)
		_ = unix.Unlink(a.dir + "/stolen")
		return failure(errno)
	})
	add("link in", "linked", func(a *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_LINKAT, at, source(a), at, path, 0)
		_ = unix.Unlink(a.own + "/linked")
		return failure(errno)
	})
	add("mkdir", "made", func(a *arena, _ int, path uintptr) error {
		_, errno := raw(unix.SYS_MKDIRAT, at, path, 0o755)
		_ = unix.Rmdir(a.own + "/made")
		return failure(errno)
	})
	add("truncate", "config", func(_ *arena, n int, path uintptr) error {
		_, errno := raw(unix.SYS_TRUNCATE, path, uintptr(n&7))
		return failure(errno)
	})
	add("bind", "socket", func(a *arena, _ int, path uintptr) error {
		// The path is copied into the address, and the byte of the address is exchanged.
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		address := a.address("socket")
		_, errno := raw(unix.SYS_BIND, uintptr(fd), address.pointer(), uintptr(len(address.text)))
		_ = unix.Unlink(a.own + "/socket")
		return failure(errno)
	})
	// The directory w is the one above the guarded one.
	above := func(what string, name func(a *arena) string, call func(a *arena, path uintptr) error) {
		var once sync.Once
		var path *flipping
		all = append(all, &race{"memory: " + what, func(a *arena, _ int) error {
			once.Do(func() { path = a.path(name(a)) })
			return call(a, path.pointer())
		}, flip('w')})
	}
	above("rename the guarded directory", func(a *arena) string { return filepath.Base(a.guarded) }, func(a *arena, path uintptr) error {
		_, errno := raw(unix.SYS_RENAMEAT2, at, path, at, stolen(a), 0)
		if errno == 0 {
			_ = unix.Rename(a.dir+"/stolen", a.own+"/"+filepath.Base(a.guarded))
		}
		return failure(errno)
	})
	above("make a protected name", func(*arena) string { return ".codex" }, func(a *arena, path uintptr) error {
		_, errno := raw(unix.SYS_MKDIRAT, at, path, 0o755)
		_ = unix.Rmdir(a.own + "/.codex")
		return failure(errno)
	})
	// The flags of openat2 are in memory. Opening for reading is permitted.
	all = append(all, &race{"memory: flags of openat2", func(a *arena, _ int) error {
		fd, errno := raw(unix.SYS_OPENAT2, at, guardedFile(a), uintptr(unsafe.Pointer(a.how)), unix.SizeofOpenHow)
		return written(fd, errno)
	}, func(a *arena, n int) {
		flags := uint64(unix.O_RDONLY | unix.O_CLOEXEC)
		if n%2 == 1 {
			flags = unix.O_WRONLY | unix.O_CLOEXEC
		}
		for range 64 {
			a.how.Flags = flags
		}
	}})
	return all
}

var attribute, value = text("user.race"), text("x")

// names keeps paths that do not change, one for each use.
var names sync.Map

func fixed(path string) uintptr {
	if p, ok := names.Load(path); ok {
		return uintptr(unsafe.Pointer(p.(*byte)))
	}
	b := append([]byte(path), 0)
	p, _ := names.LoadOrStore(path, &b[0])
	return uintptr(unsafe.Pointer(p.(*byte)))
}

func stolen(a *arena) uintptr      { return fixed(a.dir + "/stolen") }
func source(a *arena) uintptr      { return fixed(a.dir + "/source") }
func guardedFile(a *arena) uintptr { return fixed(a.guarded + "/config") }

var addresses sync.Map

// address returns an address of a Unix socket whose path is exchanged.
func (a *arena) address(name string) *flipping {
	if f, ok := addresses.Load(name); ok {
		return f.(*flipping)
	}
	text := append([]byte{unix.AF_UNIX, 0}, append([]byte(a.dir+"/o/"+name), 0)...)
	f := &flipping{text: text, at: 2 + len(a.dir) + 1}
	a.paths = append(a.paths, f)
	addresses.Store(name, f)
	return f
}

// descriptorRaces exchange what a number of a descriptor means.
func descriptorRaces() []*race {
	var all []*race
	add := func(what string, call func(a *arena, n int) error) {
		all = append(all, &race{"a descriptor: " + what, call, exchangeDescriptors})
	}
	on := func(what string, nr uintptr, args func(a *arena, n int) []uintptr) {
		add(what, func(a *arena, n int) error {
			_, errno := raw(nr, args(a, n)...)
			return failure(errno)
		})
	}
	file := func(a *arena) uintptr { return uintptr(a.fd + 1) }
	dir := func(a *arena) uintptr { return uintptr(a.fd) }
	on("fchmod", unix.SYS_FCHMOD, func(a *arena, n int) []uintptr { return []uintptr{file(a), 0o600 + uintptr(n&7)} })
	on("fchmodat2", unix.SYS_FCHMODAT2, func(a *arena, n int) []uintptr {
		return []uintptr{file(a), empty, 0o600 + uintptr(n&7), unix.AT_EMPTY_PATH}
	})
	on("fchown", unix.SYS_FCHOWN, func(a *arena, _ int) []uintptr {
		return []uintptr{file(a), uintptr(unix.Getuid()), uintptr(unix.Getgid())}
	})
	on("futimens", unix.SYS_UTIMENSAT, func(a *arena, _ int) []uintptr { return []uintptr{file(a), 0, 0, 0} })
	on("fsetxattr", unix.SYS_FSETXATTR, func(a *arena, _ int) []uintptr { return []uintptr{file(a), attribute, value, 1, 0} })
	on("fchmodat", unix.SYS_FCHMODAT, func(a *arena, n int) []uintptr { return []uintptr{dir(a), relative, 0o600 + uintptr(n&7)} })
	on("mkdirat", unix.SYS_MKDIRAT, func(a *arena, n int) []uintptr { return []uintptr{dir(a), fixed("new" + label(n)), 0o755} })
	on("symlinkat", unix.SYS_SYMLINKAT, func(a *arena, n int) []uintptr { return []uintptr{relative, dir(a), fixed("sym" + label(n))} })
	on("mknodat", unix.SYS_MKNODAT, func(a *arena, n int) []uintptr {
		return []uintptr{dir(a), fixed("fifo" + label(n)), unix.S_IFIFO | 0o600, 0}
	})
	on("linkat into", unix.SYS_LINKAT, func(a *arena, n int) []uintptr { return []uintptr{at, source(a), dir(a), fixed("l" + label(n)), 0} })
	add("renameat", func(a *arena, _ int) error {
		_, errno := raw(unix.SYS_RENAMEAT2, dir(a), relative, dir(a), fixed("moved"), 0)
		_ = unix.Rename(a.own+"/moved", a.own+"/config")
		return failure(errno)
	})
	add("renameat and back", func(a *arena, _ int) error {
		_, errno := raw(unix.SYS_RENAMEAT2, dir(a), fixed("hooks"), at, stolen(a), 0)
		if errno == 0 {
			_ = unix.Rename(a.dir+"/stolen", a.own+"/hooks")
		}
		return failure(errno)
	})
	add("unlinkat", func(a *arena, _ int) error {
		_, errno := raw(unix.SYS_UNLINKAT, dir(a), relative, 0)
		_ = open(a.own+"/config", unix.O_WRONLY|unix.O_CREAT)
		return failure(errno)
	})
	add("linkat out of", func(a *arena, n int) error {
		_, errno := raw(unix.SYS_LINKAT, dir(a), relative, at, fixed(a.dir+"/stolen"+label(n&7)), 0)
		_ = unix.Unlink(a.dir + "/stolen" + label(n&7))
		return failure(errno)
	})
	add("openat", func(a *arena, _ int) error {
		fd, errno := raw(unix.SYS_OPENAT, dir(a), relative, unix.O_WRONLY|unix.O_CLOEXEC, 0)
		return written(fd, errno)
	})
	add("openat with O_CREAT", func(a *arena, n int) error {
		fd, errno := raw(unix.SYS_OPENAT, dir(a), fixed("new"+label(n&0xff)), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
		return written(fd, errno)
	})
	for _, link := range []string{"/proc/self/fd/201", "/proc/thread-self/fd/201", "/dev/fd/201"} {
		add("open "+link, func(_ *arena, _ int) error {
			fd, errno := raw(unix.SYS_OPENAT, at, fixed(link), unix.O_WRONLY|unix.O_CLOEXEC, 0)
			return written(fd, errno)
		})
	}
	add("truncate by link", func(_ *arena, n int) error {
		_, errno := raw(unix.SYS_TRUNCATE, fixed("/proc/self/fd/201"), uintptr(n&7))
		return failure(errno)
	})
	add("linkat by link", func(a *arena, n int) error {
		name := fixed(a.dir + "/stolen" + label(n&7))
		_, errno := raw(unix.SYS_LINKAT, at, fixed("/proc/self/fd/201"), at, name, unix.AT_SYMLINK_FOLLOW)
		_ = unix.Unlink(a.dir + "/stolen" + label(n&7))
		return failure(errno)
	})
	return all
}

var empty = text("")
