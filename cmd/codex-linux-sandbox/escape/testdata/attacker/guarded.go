package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// These attacks try each call that changes files, on a guarded directory, which the sandbox shows read-only. Each try has a
// file f0, f1, ... and an empty directory d0, d1, ... of that directory for itself, so that outside of a sandbox all of them work.

func init() {
	attacks["guarded paths"] = guardedPaths
	attacks["guarded calls"] = func([]string) {
		for _, c := range allPathCalls() {
			fmt.Println("call: " + c.name)
		}
	}
	attacks["protected spellings"] = protectedSpellings
	attacks["above"] = above
}

// pathCall is a call that changes files. f and d are the paths of a guarded file and of a guarded empty directory, made is a path
// there that does not exist, and own is the path of a file of the attacker that may be used up; a directory is at own + ".d".
type pathCall struct {
	name string
	call func(f, d, made, own string) error
}

// by makes a call that gets the path of a file first.
func by(nr uintptr, more ...uintptr) func(string, string, string, string) error {
	return func(f, _, _, _ string) error {
		_, errno := raw(nr, append([]uintptr{text(f)}, more...)...)
		return failure(errno)
	}
}

// from makes a call that gets a directory and then the path of a file.
func from(nr uintptr, more ...uintptr) func(string, string, string, string) error {
	return func(f, _, _, _ string) error {
		_, errno := raw(nr, append([]uintptr{at, text(f)}, more...)...)
		return failure(errno)
	}
}

func opened(flags uintptr) func(string, string, string, string) error {
	return func(f, _, _, _ string) error {
		fd, errno := raw(unix.SYS_OPENAT, at, text(f), flags|unix.O_CLOEXEC|unix.O_NONBLOCK, 0o600)
		return written(fd, errno)
	}
}

// oldPathCalls are those that only some architectures have.
var oldPathCalls []pathCall

// allPathCalls returns the calls that change files by paths.
func allPathCalls() []pathCall {
	me, group := uintptr(os.Getuid()), uintptr(os.Getgid())
	rename := func(flags uint, pick func(f, d, made, own string) (string, string)) func(string, string, string, string) error {
		return func(f, d, made, own string) error {
			from, to := pick(f, d, made, own)
			return unix.Renameat2(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
		}
	}
	link := func(flags int, pick func(f, made, own string) (string, string)) func(string, string, string, string) error {
		return func(f, _, made, own string) error {
			from, to := pick(f, made, own)
			return unix.Linkat(unix.AT_FDCWD, from, unix.AT_FDCWD, to, flags)
		}
	}
	openat2 := func(how unix.OpenHow, size uintptr) func(string, string, string, string) error {
		return func(f, _, _, _ string) error {
			larger := struct {
				unix.OpenHow
				_ [64]byte
			}{OpenHow: how}
			fd, errno := raw(unix.SYS_OPENAT2, at, text(f), pointer(&larger), size)
			return written(fd, errno)
		}
	}
	value := pointer(&[2]uintptr{text("x"), 1})
	attr := &struct {
		_     [8]byte
		flags [2]uint64 // atime and mtime follow in struct file_attr only by name: it is about flags
	}{}
	return append([]pathCall{
		{"open O_WRONLY", opened(unix.O_WRONLY)}, {"open O_RDWR", opened(unix.O_RDWR)}, {"open O_APPEND", opened(unix.O_WRONLY | unix.O_APPEND)},
		{"open O_TRUNC", func(f, _, _, _ string) error { return open(f, unix.O_RDONLY|unix.O_TRUNC) }},
		{"open O_CREAT", opened(unix.O_WRONLY | unix.O_CREAT)}, {"open O_CREAT|O_TRUNC|O_NOFOLLOW", opened(unix.O_RDWR | unix.O_CREAT | unix.O_TRUNC | unix.O_NOFOLLOW)},
		{"open with high bits", opened(0xffff_ffff<<32 | unix.O_WRONLY)},
		{"open O_CREAT of a new name", func(_, _, made, _ string) error { return open(made, unix.O_RDONLY|unix.O_CREAT) }},
		{"open O_EXCL", func(_, _, made, _ string) error { return open(made, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL) }},
		{"open O_TMPFILE", func(_, d, _, _ string) error { return open(d, unix.O_WRONLY|unix.O_TMPFILE) }},
		{"openat2", openat2(unix.OpenHow{Flags: unix.O_RDWR}, unix.SizeofOpenHow)},
		{"openat2 with RESOLVE_NO_SYMLINKS", openat2(unix.OpenHow{Flags: unix.O_WRONLY, Resolve: unix.RESOLVE_NO_MAGICLINKS}, unix.SizeofOpenHow)},
		{"openat2 of a larger size", openat2(unix.OpenHow{Flags: unix.O_RDWR}, unix.SizeofOpenHow+64)},
		{"openat2 O_CREAT", func(_, _, made, _ string) error {
			fd, err := unix.Openat2(unix.AT_FDCWD, made, &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o600})
			return written(uintptr(fd), errnoOf(err))
		}},
		{"mkdirat", func(_, _, made, _ string) error { return unix.Mkdirat(unix.AT_FDCWD, made, 0o755) }},
		{"mknodat of a file", func(_, _, made, _ string) error { return unix.Mknodat(unix.AT_FDCWD, made, unix.S_IFREG|0o600, 0) }},
		{"mknodat of a FIFO", func(_, _, made, _ string) error { return unix.Mknodat(unix.AT_FDCWD, made, unix.S_IFIFO|0o600, 0) }},
		{"mknodat of a socket", func(_, _, made, _ string) error { return unix.Mknodat(unix.AT_FDCWD, made, unix.S_IFSOCK|0o600, 0) }},
		{"bind", func(_, _, made, _ string) error { return bound(made) }},
		{"symlinkat", func(_, _, made, _ string) error { return unix.Symlinkat("x", unix.AT_FDCWD, made) }},
		{"unlinkat", from(unix.SYS_UNLINKAT, 0)},
		{"unlinkat of a directory", func(_, d, _, _ string) error { return unix.Unlinkat(unix.AT_FDCWD, d, unix.AT_REMOVEDIR) }},
		{"link out", link(0, func(f, _, own string) (string, string) { return f, own + ".link" })},
		{"link out, following links", link(unix.AT_SYMLINK_FOLLOW, func(f, _, own string) (string, string) { return f, own + ".link" })},
		{"link in", link(0, func(_, made, own string) (string, string) { return own, made })},
		{"link within", link(0, func(f, made, _ string) (string, string) { return f, made })},
		{"renameat2 in", rename(0, func(_, _, made, own string) (string, string) { return own, made })},
		{"renameat2 over", rename(0, func(f, _, _, own string) (string, string) { return own, f })},
		{"renameat2 of a directory in", rename(0, func(_, _, made, own string) (string, string) { return own + ".d", made })},
		{"renameat2 of a directory over", rename(0, func(_, d, _, own string) (string, string) { return own + ".d", d })},
		{"renameat2 out", rename(0, func(f, _, _, own string) (string, string) { return f, own + ".moved" })},
		{"renameat2 of a directory out", rename(0, func(_, d, _, own string) (string, string) { return d, own + ".moved" })},
		{"renameat2 within", rename(0, func(f, _, made, _ string) (string, string) { return f, made })},
		{"exchange", rename(unix.RENAME_EXCHANGE, func(f, _, _, own string) (string, string) { return own, f })},
		{"exchange, the other way", rename(unix.RENAME_EXCHANGE, func(f, _, _, own string) (string, string) { return f, own })},
		{"rename with RENAME_NOREPLACE", rename(unix.RENAME_NOREPLACE, func(f, _, _, own string) (string, string) { return f, own + ".moved" })},
		{"whiteout", rename(unix.RENAME_WHITEOUT, func(f, _, _, own string) (string, string) { return f, own + ".moved" })},
		{"truncate", by(unix.SYS_TRUNCATE, 1)}, {"fchmodat", from(unix.SYS_FCHMODAT, 0o640)},
		{"fchmodat with high bits", from(unix.SYS_FCHMODAT, 0xffff<<32|0o640)},
		{"fchmodat2", from(unix.SYS_FCHMODAT2, 0o640, 0)}, {"fchmodat2 of a link itself", from(unix.SYS_FCHMODAT2, 0o640, unix.AT_SYMLINK_NOFOLLOW)},
		{"fchownat", from(unix.SYS_FCHOWNAT, me, group, 0)}, {"fchownat of a link itself", from(unix.SYS_FCHOWNAT, me, group, unix.AT_SYMLINK_NOFOLLOW)},
		{"utimensat", from(unix.SYS_UTIMENSAT, 0, 0)}, {"utimensat of a link itself", from(unix.SYS_UTIMENSAT, 0, unix.AT_SYMLINK_NOFOLLOW)},
		{"setxattr", by(unix.SYS_SETXATTR, attribute, text("x"), 1, 0)}, {"lsetxattr", by(unix.SYS_LSETXATTR, attribute, text("x"), 1, 0)},
		{"removexattr", by(unix.SYS_REMOVEXATTR, attributeThere)}, {"lremovexattr", by(unix.SYS_LREMOVEXATTR, attributeThere)},
		{"setxattrat", from(463, 0, attribute, value, 16)}, {"removexattrat", from(466, 0, attributeThere)},
		{"file_setattr", from(469, pointer(attr), 24, 0)},
	}, oldPathCalls...)
}

// attributeThere is the name of an extended attribute that each guarded file has.
var attributeThere = text("user.there")

// guardedPaths makes each call with each spelling. args: a directory in which it makes files, and the guarded directory.
func guardedPaths(args []string) {
	dir, guarded := args[0], args[1]
	broken("mkdir", os.MkdirAll(dir+"/sub/deeper", 0o755))
	broken("symlink", unix.Symlink(guarded, dir+"/link"))
	broken("symlink", unix.Symlink("link", dir+"/second"))
	broken("symlink", unix.Symlink("/proc/self/cwd/../"+filepath.Base(guarded), dir+"/magic"))
	fd, err := unix.Open(guarded, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	broken("open the directory", err)
	place, err := unix.Open(guarded, unix.O_PATH|unix.O_CLOEXEC, 0)
	broken("open the directory", err)
	home := filepath.Dir(guarded)
	spellings := []struct{ name, cwd, prefix string }{
		{"the path", dir, guarded + "/"},
		{"slashes and dots", dir, strings.ReplaceAll(guarded, "/", "//") + "/.///../" + filepath.Base(guarded) + "/"},
		{"a link", dir, dir + "/link/"}, {"a link to a link", dir, "second/"},
		{"the working directory", guarded, ""}, {"the directory above", home, "./" + filepath.Base(guarded) + "/"},
		{"dots", dir + "/sub/deeper", strings.Repeat("../", strings.Count(dir, "/")+2) + guarded[1:] + "/"},
		{"/proc/self/cwd", guarded, "/proc/self/cwd/"}, {"/proc/thread-self/cwd", guarded, "/proc/thread-self/cwd/"},
		{"/proc/self/root", dir, "/proc/self/root" + guarded + "/"}, {"/proc/PID/root", dir, fmt.Sprintf("/proc/%d/root%s/", os.Getpid(), guarded)},
		{"a descriptor", dir, fmt.Sprintf("/proc/self/fd/%d/", fd)}, {"a place", dir, fmt.Sprintf("/dev/fd/%d/", place)},
		{"a thread's descriptor", dir, fmt.Sprintf("/proc/self/task/%d/fd/%d/", unix.Gettid(), fd)},
		{"up from a descriptor", dir, fmt.Sprintf("/proc/self/fd/%d/../%s/", fd, filepath.Base(guarded))},
		{"a link through /proc", home, dir + "/magic/"},
	}
	n := 0
	for _, s := range spellings {
		if s.name == "a link through /proc" { // from the directory above, cwd/.. leads one further up
			broken("chdir", os.Chdir(guarded))
		} else {
			broken("chdir", os.Chdir(s.cwd))
		}
		for _, c := range allPathCalls() {
			own := fmt.Sprintf("%s/own%d", dir, n)
			broken("write", os.WriteFile(own, []byte("evil"), 0o644))
			broken("mkdir", os.Mkdir(own+".d", 0o755))
			try(c.name+" by "+s.name, c.call(fmt.Sprint(s.prefix, "f", n), fmt.Sprint(s.prefix, "d", n), fmt.Sprint(s.prefix, "made", n), own))
			n++
		}
	}
}

// protectedSpellings makes a missing name in many ways. args: a directory in which it makes files, and the name. Outside of a
// sandbox it removes what it has made each time.
func protectedSpellings(args []string) {
	dir, name := args[0], args[1]
	top, base := filepath.Dir(name), filepath.Base(name)
	broken("mkdir", os.MkdirAll(dir+"/sub", 0o755))
	links := func() {
		for link, to := range map[string]string{"absolute": name, "relative": "../" + base, "dots": "sub/../../" + base, "second": "absolute", "third": dir + "/second"} {
			_ = os.RemoveAll(dir + "/" + link)
			broken("symlink", unix.Symlink(to, dir+"/"+link))
		}
	}
	broken("chdir", os.Chdir(dir))
	fd, err := unix.Open(top, unix.O_PATH|unix.O_CLOEXEC, 0)
	broken("open", err)
	paths := []string{
		name, name + "/", name + "//", name + "/.", top + "/./" + base, dir + "/../" + base, "../" + base, dir + "/sub/../../" + base,
		"/proc/self/cwd/../" + base, fmt.Sprintf("/proc/self/fd/%d/%s", fd, base), fmt.Sprintf("/dev/fd/%d/%s", fd, base), "/proc/self/root" + name,
		dir + "/absolute", dir + "/relative", dir + "/dots", dir + "/second", dir + "/third", dir + "/absolute/",
	}
	calls := slices.DeleteFunc(allPathCalls(), func(c pathCall) bool { return !creates[c.name] })
	for i, path := range paths {
		for j, c := range calls {
			own := fmt.Sprintf("%s/own%d-%d", dir, i, j)
			broken("write", os.WriteFile(own, []byte("evil"), 0o644))
			broken("mkdir", os.Mkdir(own+".d", 0o755))
			links() // the call before may have replaced them
			err := c.call(own, own+".d", path, own)
			var st unix.Stat_t
			if unix.Lstat(name, &st) == nil && st.Mode&0o222 != 0 { // a placeholder of the sandbox is read-only
				breach(c.name + " made " + path)
				_ = os.RemoveAll(name)
			} else {
				held(c.name+" of "+path, err)
			}
		}
		if unnamed, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY|unix.O_CLOEXEC, 0o600); err == nil {
			if unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", unnamed), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW) == nil ||
				unix.Linkat(unnamed, "", unix.AT_FDCWD, path, unix.AT_EMPTY_PATH) == nil {
				breach("an unnamed file became " + path)
				_ = os.RemoveAll(path)
			}
			_ = unix.Close(unnamed)
		}
	}
	_ = unix.Close(fd)
}

// creates are the calls that make a new name.
var creates = map[string]bool{
	"open O_CREAT of a new name": true, "open O_EXCL": true, "openat2 O_CREAT": true, "mkdirat": true, "mknodat of a file": true, "mknodat of a FIFO": true,
	"mknodat of a socket": true, "bind": true, "symlinkat": true, "link in": true, "renameat2 in": true, "renameat2 of a directory in": true,
	"mkdir": true, "creat": true, "rename": true, "link": true, "symlink": true, "mknod": true,
}

// above tries to move, exchange and remove the directories above a guarded file, and the file. args: a directory in which it
// makes files, and the paths, the innermost first. Outside of a sandbox it moves each back.
func above(args []string) {
	dir := args[0]
	broken("mkdir", os.MkdirAll(dir+"/other", 0o755))
	broken("write", os.WriteFile(dir+"/file", []byte("evil"), 0o644))
	for _, path := range args[1:] {
		for _, to := range []string{dir + "/moved", path + ".moved"} {
			err := unix.Rename(path, to)
			try("rename "+path, err)
			if err == nil {
				broken("rename back", unix.Rename(to, path))
			}
			err = unix.Renameat2(unix.AT_FDCWD, path, unix.AT_FDCWD, to, unix.RENAME_NOREPLACE)
			try("RENAME_NOREPLACE "+path, err)
			if err == nil {
				broken("rename back", unix.Rename(to, path))
			}
		}
		for _, with := range []string{dir + "/other", dir + "/file"} {
			for _, err := range []error{exchange(path, with), exchange(with, path)} {
				if err == nil && exchange(with, path) == nil {
					err = nil
				}
				try("exchange "+path+" with "+filepath.Base(with), err)
			}
		}
		var st unix.Stat_t
		if broken("stat", unix.Lstat(path, &st)); st.Mode&unix.S_IFMT == unix.S_IFDIR {
			try("rmdir "+path, unix.Rmdir(path))
		}
	}
}
