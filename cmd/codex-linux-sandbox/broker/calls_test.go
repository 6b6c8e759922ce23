package broker_test

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"unsafe"

	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// call is a call that changes something at a path. prepare makes what the call needs, where it is permitted.
type call struct {
	name    string
	prepare func(at string) error
	do      func(at string) error
}

func nothing(string) error { return nil }

// aFile makes a file, unless one is there.
func aFile(at string) error {
	fd, err := unix.Open(at, unix.O_CREAT|unix.O_WRONLY, 0o644)
	if err == nil {
		err = unix.Close(fd)
	}
	return err
}

func open(flags int) func(at string) error {
	return func(at string) error {
		fd, err := unix.Open(at, flags, 0o644)
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}
}

// onFD opens a file for reading, and makes a call on the descriptor.
func onFD(do func(fd int) error) func(at string) error {
	return func(at string) error {
		fd, err := unix.Open(at, unix.O_RDONLY, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return do(fd)
	}
}

// raw makes a call whose first argument is a path.
func raw(number uintptr, args ...uintptr) func(at string) error {
	return func(at string) error {
		name, err := unix.BytePtrFromString(at)
		if err != nil {
			return err
		}
		var a [6]uintptr
		a[0] = uintptr(unsafe.Pointer(name))
		copy(a[1:], args)
		_, _, errno := syscall.Syscall6(number, a[0], a[1], a[2], a[3], a[4], a[5])
		if errno != 0 {
			return errno
		}
		return nil
	}
}

var now = []unix.Timespec{{Sec: 1}, {Sec: 2}}

// existing are the calls that change a file that exists.
var existing = []call{
	{"open for writing", aFile, open(unix.O_WRONLY)},
	{"open for reading and writing", aFile, open(unix.O_RDWR)},
	{"open that truncates", aFile, open(unix.O_RDONLY | unix.O_TRUNC)},
	{"open that appends and creates", aFile, open(unix.O_WRONLY | unix.O_CREAT | unix.O_APPEND)},
	{"openat2", aFile, func(at string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, at, &unix.OpenHow{Flags: unix.O_RDWR})
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{"reopen by /proc/self/fd", aFile, onFD(func(fd int) error { return open(unix.O_RDWR)(procFD("/proc/self/fd/", fd)) })},
	{"reopen by /proc/thread-self/fd", aFile, onFD(func(fd int) error { return open(unix.O_RDWR)(procFD("/proc/thread-self/fd/", fd)) })},
	{"reopen by /dev/fd", aFile, onFD(func(fd int) error { return open(unix.O_RDWR)(procFD("/dev/fd/", fd)) })},
	{"truncate", aFile, func(at string) error { return unix.Truncate(at, 1) }},
	{"chmod", aFile, func(at string) error { return unix.Chmod(at, 0o600) }},
	{"fchmodat2", aFile, func(at string) error { return unix.Fchmodat(unix.AT_FDCWD, at, 0o600, unix.AT_SYMLINK_NOFOLLOW) }},
	{"fchmod of a descriptor for reading", aFile, onFD(func(fd int) error { return unix.Fchmod(fd, 0o600) })},
	{"chmod by /proc/self/fd", aFile, onFD(func(fd int) error { return unix.Chmod(procFD("/proc/self/fd/", fd), 0o600) })},
	{"chown", aFile, func(at string) error { return unix.Chown(at, os.Getuid(), -1) }},
	{"lchown", aFile, func(at string) error { return unix.Lchown(at, os.Getuid(), -1) }},
	{"fchown", aFile, onFD(func(fd int) error { return unix.Fchown(fd, os.Getuid(), -1) })},
	{"fchownat with an empty path", aFile, onFD(func(fd int) error { return unix.Fchownat(fd, "", os.Getuid(), -1, unix.AT_EMPTY_PATH) })},
	{"utimensat", aFile, func(at string) error { return unix.UtimesNanoAt(unix.AT_FDCWD, at, now, 0) }},
	{"futimens", aFile, onFD(futimens)},
	{"setxattr", aFile, func(at string) error { return unix.Setxattr(at, "user.x", []byte("v"), 0) }},
	{"lsetxattr", aFile, func(at string) error { return unix.Lsetxattr(at, "user.x", []byte("v"), 0) }},
	{"fsetxattr", aFile, onFD(func(fd int) error { return unix.Fsetxattr(fd, "user.x", []byte("v"), 0) })},
	{"removexattr", anAttribute, func(at string) error { return unix.Removexattr(at, "user.x") }},
	{"lremovexattr", anAttribute, func(at string) error { return unix.Lremovexattr(at, "user.x") }},
	{"fremovexattr", anAttribute, onFD(func(fd int) error { return unix.Fremovexattr(fd, "user.x") })},
}

// names are the calls that make, remove or move a name.
var names = []call{
	{"unlink", aFile, unix.Unlink},
	{"rename away", aFile, func(at string) error { return unix.Rename(at, at+".moved") }},
	{"exchange", aFile, func(at string) error {
		if err := aFile("other"); err != nil {
			return err
		}
		return unix.Renameat2(unix.AT_FDCWD, at, unix.AT_FDCWD, "other", unix.RENAME_EXCHANGE)
	}},
	{"rename onto", nothing, func(at string) error {
		if err := aFile("other"); err != nil {
			return err
		}
		return unix.Rename("other", at)
	}},
}

// making are the calls that make a new name.
var making = []call{
	{"open that creates", nothing, open(unix.O_WRONLY | unix.O_CREAT | unix.O_EXCL)},
	{"open for reading that creates", nothing, open(unix.O_RDONLY | unix.O_CREAT)},
	{"openat2 that creates", nothing, func(at string) error {
		fd, err := unix.Openat2(unix.AT_FDCWD, at, &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o600})
		if err == nil {
			err = unix.Close(fd)
		}
		return err
	}},
	{"mkdir", nothing, func(at string) error { return unix.Mkdir(at, 0o755) }},
	{"mkdir with a slash", nothing, func(at string) error { return unix.Mkdir(at+"/", 0o755) }},
	{"mkfifo", nothing, func(at string) error { return unix.Mkfifo(at, 0o644) }},
	{"mknod of a file", nothing, func(at string) error { return unix.Mknod(at, unix.S_IFREG|0o644, 0) }},
	{"mknod of a socket", nothing, func(at string) error { return unix.Mknod(at, unix.S_IFSOCK|0o644, 0) }},
	{"symlink", nothing, func(at string) error { return unix.Symlink("x", at) }},
	{"link", nothing, func(at string) error {
		if err := aFile("other"); err != nil {
			return err
		}
		return unix.Link("other", at)
	}},
	{"rename of a file", nothing, func(at string) error {
		if err := aFile("other"); err != nil {
			return err
		}
		return unix.Rename("other", at)
	}},
	{"rename of a directory", nothing, func(at string) error {
		_ = unix.Mkdir("otherdir", 0o755)
		return unix.Rename("otherdir", at)
	}},
	{"open of a link that leads there", nothing, func(at string) error {
		_ = unix.Unlink("to")
		if err := unix.Symlink(at, "to"); err != nil {
			return err
		}
		return open(unix.O_WRONLY | unix.O_CREAT)("to")
	}},
	{"linkat of an unnamed file", nothing, func(at string) error {
		fd, err := unix.Open(".", unix.O_TMPFILE|unix.O_WRONLY, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.Linkat(unix.AT_FDCWD, procFD("/proc/self/fd/", fd), unix.AT_FDCWD, at, unix.AT_SYMLINK_FOLLOW)
	}},
}

func futimens(fd int) error {
	_, _, errno := syscall.Syscall6(unix.SYS_UTIMENSAT, uintptr(fd), 0, uintptr(unsafe.Pointer(&now[0])), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

func anAttribute(at string) error {
	if err := aFile(at); err != nil {
		return err
	}
	return unix.Setxattr(at, "user.x", []byte("v"), 0)
}

// acts maps what a command does to the errors of its calls.
var acts = map[string]func(dir string) map[string]syscall.Errno{
	"permitted": func(string) map[string]syscall.Errno {
		results := make(map[string]syscall.Errno)
		for _, at := range []string{"new", "d/new", "docs/new"} {
			for _, c := range concat(existing, names, making) {
				_ = os.RemoveAll(at)
				err := c.prepare(at)
				if err == nil {
					err = c.do(at)
				}
				results[c.name+" of "+at] = errno(err)
			}
			_ = os.RemoveAll(at)
			_ = os.RemoveAll(at + ".moved")
		}
		return results
	},
	"signals": signals,
	"sockets": socketsInside,
	"hang up": hangUpInside,
	"links of /proc": func(string) map[string]syscall.Errno {
		fd, err := unix.Open("f", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		results := map[string]syscall.Errno{"open": errno(err)}
		for name, resolve := range map[string]uint64{"followed": 0, "no links of /proc": unix.RESOLVE_NO_MAGICLINKS, "no links": unix.RESOLVE_NO_SYMLINKS} {
			_, err := unix.Openat2(unix.AT_FDCWD, procFD("/proc/self/fd/", fd), &unix.OpenHow{Flags: unix.O_RDWR, Resolve: resolve})
			results[name] = errno(err)
		}
		return results
	},
	"terminals": terminalsInside,
	"shm":       sharedInside,
	"protected": func(string) map[string]syscall.Errno {
		results := make(map[string]syscall.Errno)
		for _, at := range []string{".git/config", "link", "docs/secret/f", "../" + base() + "/.git/config", "/etc/passwd"} {
			for _, c := range existing {
				if at == "link" && (c.name == "lchown" || c.name == "fchmodat2") {
					continue // they change the link itself
				}
				results[c.name+" of "+at] = errno(c.do(at))
			}
		}
		for _, at := range []string{".git/config", "docs/secret/f", "/etc/passwd"} {
			for _, c := range names {
				results[c.name+" of "+at] = errno(c.do(at))
			}
		}
		for _, at := range []string{".git", "docs", "docs/secret"} {
			for _, c := range names {
				results[c.name+" of "+at] = errno(c.do(at))
			}
			results["rmdir of "+at] = errno(unix.Rmdir(at))
		}
		for _, at := range []string{".codex", ".agents", ".CODEX", ".Git", ".git/new", "docs/secret/new", "/etc/codex-broker-test", "d/../.codex"} {
			for _, c := range making {
				results[c.name+" of "+at] = errno(c.do(at))
			}
		}
		results["open of a link that leads to a missing protected name"] = errno(open(unix.O_WRONLY | unix.O_CREAT)("dangling"))
		results["hard link of a protected file"] = errno(unix.Link(".git/config", "hard"))
		results["hard link of a file outside"] = errno(unix.Link("/etc/passwd", "hard"))
		return results
	},
}

func base() string {
	dir, err := os.Getwd()
	if err != nil {
		panic(err)
	}
	return filepath.Base(dir)
}

func concat(lists ...[]call) (all []call) {
	for _, l := range append(lists, older) {
		all = append(all, l...)
	}
	return all
}

func procFD(dir string, fd int) string { return dir + itoa(fd) }

func TestCallsWorkWhereTheyArePermitted(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int) {
		for name, got := range act(t, workspace(t), version, "permitted") {
			if got != 0 && !missing(version, name, got) {
				t.Errorf("%s: got %v, want success", name, got)
			}
		}
	})
}

// missing reports whether openat2 fails because the broker does not permit it before version 3.
func missing(version int, name string, got syscall.Errno) bool {
	return version < 3 && strings.HasPrefix(name, "openat2") && got == unix.ENOSYS
}

// TestLinksOfProcAreNotFollowedForACallThatForbidsThem: the broker takes the file of /proc/self/fd/N from the caller's table, unless openat2 must
// follow no such link.
func TestLinksOfProcAreNotFollowedForACallThatForbidsThem(t *testing.T) {
	machine.NeedLandlock(t, 3)
	got := act(t, workspace(t), 6, "links of /proc")
	for name, want := range map[string]syscall.Errno{"open": 0, "followed": 0, "no links of /proc": unix.ELOOP, "no links": unix.ELOOP} {
		if got[name] != want {
			t.Errorf("%s: got %v, want %v", name, got[name], want)
		}
	}
}

// TestTheHelperOpensByOpenat2: the helper of file requests, which opens by openat2, can write where it may, and nowhere else, with every
// version of Landlock.
func TestTheHelperOpensByOpenat2(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int) {
		dir := workspace(t)
		for what, want := range map[string][]syscall.Errno{"permitted": {0}, "protected": {unix.EACCES, unix.EPERM}} {
			tried := 0
			for name, got := range act(t, dir, version, what, "--trusted-helper") {
				if strings.HasPrefix(name, "openat2") {
					tried++
					if !slices.Contains(want, got) {
						t.Errorf("%s, %s: got %v, want one of %v", what, name, got, want)
					}
				}
			}
			if tried == 0 {
				t.Errorf("%s: no openat2 was tried", what)
			}
		}
	})
}

func TestCallsAreRefusedWhereSomethingIsProtected(t *testing.T) {
	eachVersion(t, func(t *testing.T, version int) {
		dir := workspace(t)
		before := snapshot(t, dir)
		for name, got := range act(t, dir, version, "protected") {
			switch {
			case got == unix.EACCES, got == unix.EPERM, got == unix.EXDEV, missing(version, name, got):
			default:
				t.Errorf("%s: got %v, want EACCES, EPERM or EXDEV", name, got)
			}
		}
		if after := snapshot(t, dir); after != before {
			t.Errorf("what is protected has changed: got %s, want %s", after, before)
		}
	})
}
