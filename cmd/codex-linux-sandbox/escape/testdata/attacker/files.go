package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func init() {
	attacks["covers"] = covers
	attacks["write"] = func(args []string) {
		// Try every call that changes a file or its metadata.
		change(args[0])
		contents(args[0])
	}
	attacks["contents"] = func(args []string) { contents(args[0]) }
	attacks["fifo"] = func(args []string) {
		for _, path := range []string{args[0], "/proc/self/root" + args[0]} {
			for name, flags := range map[string]int{"O_WRONLY": unix.O_WRONLY, "O_RDWR": unix.O_RDWR, "O_APPEND": unix.O_WRONLY | unix.O_APPEND} {
				fd, err := unix.Open(path, flags|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
				if err == nil {
					_, err = unix.Write(fd, []byte("injected"))
					_ = unix.Close(fd)
				}
				try("write by "+name, err)
			}
		}
		// Open a file again for writing from a descriptor that is open for reading.
		fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
		broken("open for reading", err)
		try("open again", open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_WRONLY|unix.O_NONBLOCK))
	}
	attacks["everyday"] = everyday
	attacks["change"] = func(args []string) { change(args[0]) }
	attacks["flags"] = func(args []string) {
		// Change the flags of a file through a descriptor that is open for reading.
		fd, err := unix.Open(args[0], unix.O_RDONLY, 0)
		broken("open", err)
		flags, err := unix.IoctlGetUint32(fd, unix.FS_IOC_GETFLAGS)
		if err != nil {
			held("FS_IOC_GETFLAGS", err)
			return
		}
		const nodump = 0x40
		value := uint32(flags | nodump)
		_, errno := raw(unix.SYS_IOCTL, uintptr(fd), unix.FS_IOC_SETFLAGS, pointer(&value))
		report("FS_IOC_SETFLAGS", errno)
	}
	attacks["read"] = func(args []string) {
		for _, path := range args {
			b, err := os.ReadFile(path)
			if err == nil && !strings.Contains(string(b), "key") {
				err = unix.ENODATA
			}
			try("read "+filepath.Base(path), err)
		}
	}
	attacks["spellings"] = func(args []string) {
		path := args[0]
		dir, name := filepath.Dir(path), filepath.Base(path)
		read := func(what, p string) {
			b, err := os.ReadFile(p)
			if err == nil && !strings.Contains(string(b), "key") {
				err = unix.ENODATA
			}
			try(what, err)
		}
		read("dots", dir+"/./x/.././/"+name)
		read("self/root", "/proc/self/root"+path)
		read("self/cwd", "/proc/self/cwd/"+path)
		read("thread-self/root", "/proc/thread-self/root"+path)
		read("1/root", "/proc/1/root"+path)
		read("slashes", strings.ReplaceAll(path, "/", "//"))
		if fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
			read("fd", fmt.Sprintf("/proc/self/fd/%d%s", fd, path))
			read("up from fd", fmt.Sprintf("/proc/self/fd/%d/../../..%s", fd, path))
		}
		// Open a path that is longer than the kernel accepts, one component at a time.
		_ = os.Chdir("/")
		for part := range strings.SplitSeq(dir[1:], "/") {
			_ = os.Chdir(part)
		}
		read("relative", name)
		read("overlong", strings.Repeat("./", 2000)+name)
		read("much too long", strings.Repeat("./", 5000)+name)
		// Call openat from directories that were opened before, and with "..".
		if fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY, 0); err == nil {
			at, err := unix.Openat(fd, name, unix.O_RDONLY, 0)
			if err == nil {
				if n, e := unix.Read(at, make([]byte, 8)); e != nil || n == 0 {
					err = unix.ENODATA
				}
			}
			try("openat", err)
		}
		// If the call may not cross a mount, it does not reach the path at all.
		if fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Resolve: unix.RESOLVE_NO_XDEV}); err == nil {
			n, e := unix.Read(fd, make([]byte, 8))
			if e == nil && n > 0 {
				breach("openat2")
			}
		}
		try("link", unix.Link(path, dir+"/hard"))
		try("rename", unix.Rename(path, dir+"/renamed"))
		try("exchange", exchange(path, dir+"/other"))
	}
	attacks["move parent"] = func(args []string) {
		// args: a directory that contains a masked file, and the name of that file.
		if err := unix.Rename(args[0], args[0]+".moved"); err != nil {
			held("rename the parent", err)
		}
		attacks["read"]([]string{args[0] + ".moved/" + args[1]})
		try("write", open(args[0]+".moved/"+args[1], unix.O_WRONLY))
		_ = unix.Mkdir(args[0], 0o755)
		try("remove", unix.Unlink(args[0]+".moved/"+args[1]))
	}
	attacks["rename"] = func(args []string) { try("rename", unix.Rename(args[0], args[1])) }
	attacks["protected"] = func(args []string) {
		for _, name := range args {
			protected(name)
		}
	}
	attacks["protected later"] = func(args []string) {
		fmt.Println("ready")
		_, _ = os.Stdin.Read(make([]byte, 1))
		attacks["protected"](args)
	}
	attacks["redirect"] = func(args []string) {
		// args: a directory, a name in it, and the target for a link of that name.
		_ = unix.Rename(args[0], args[0]+".moved")
		_ = unix.Mkdir(args[0], 0o755)
		_ = unix.Rename(args[0]+"/"+args[1], args[0]+"/moved")
		_ = unix.Symlink(args[2], args[0]+"/"+args[1])
	}
	attacks["overwrite"] = func(args []string) {
		for _, path := range args {
			_ = os.WriteFile(path, []byte("evil"), 0o644)
		}
	}
	attacks["case"] = func(args []string) {
		// On a case-sensitive file system these are other names. They must not lead to the
		// protected ones.
		for _, name := range []string{".GIT", ".Git", ".git.", ".git ", ".g\u200cit", ".CODEX", ".Agents"} {
			p := args[0] + "/" + name
			_ = os.Mkdir(p, 0o755)
			_ = os.WriteFile(p+"/config", []byte("[evil]\n"), 0o644)
		}
		for _, name := range []string{".git", ".codex", ".agents"} {
			if _, err := os.Stat(args[0] + "/" + name + "/config"); err == nil {
				breach(name)
			}
		}
		held("case", unix.ENOENT)
	}
	attacks["forge"] = func(args []string) {
		// Create a directory and a file that look like placeholders: they have the mode and the
		// time of one.
		times := []unix.Timespec{{Sec: 3600, Nsec: 203_569_741}, {Sec: 3600, Nsec: 203_569_741}}
		for _, name := range args {
			broken("mkdir", os.MkdirAll(name, 0o755))
			broken("write", os.WriteFile(name+"/data", []byte("keep"), 0o644))
			broken("chmod", unix.Chmod(name, 0o555))
			broken("utimes", unix.UtimesNanoAt(unix.AT_FDCWD, name, times, 0))
		}
	}
	attacks["undo"] = func(args []string) {
		// Create a .git that an ordinary user cannot empty in one pass.
		own := args[0] + "/own"
		broken("mkdir", os.MkdirAll(own+"/hooks", 0o755))
		for _, name := range []string{"config", "HEAD", "hooks/post-checkout"} {
			broken("write", os.WriteFile(own+"/"+name, []byte("evil"), 0o755))
		}
		broken("chmod", unix.Chmod(own+"/hooks", 0o555))
		broken("chmod", unix.Chmod(own, 0o555))
		try("move into place", unix.Rename(own, args[0]+"/.git"))
	}
	attacks["show"] = func(args []string) {
		for _, name := range args {
			b, err := os.ReadFile(name)
			fmt.Printf("%s: %q %v\n", name, b, err)
		}
	}
	attacks["show the first process"] = func([]string) {
		dir := "/proc/" + firstProcess()
		attacks["show"]([]string{dir + "/cmdline", dir + "/environ"})
	}
	attacks["create"] = func(args []string) { try("create", open(args[0], unix.O_WRONLY|unix.O_CREAT)) }
	attacks["print"] = func(args []string) {
		fd, _ := strconv.Atoi(args[0])
		_, err := io.Copy(os.Stdout, os.NewFile(uintptr(fd), "input"))
		broken("print", err)
	}
	attacks["devices"] = func([]string) {
		for _, name := range []string{"null", "zero", "full", "random", "urandom", "tty"} {
			path := "/dev/" + name
			var st unix.Stat_t
			if unix.Stat(path, &st) != nil {
				continue
			}
			try("chmod "+path, unix.Chmod(path, st.Mode&0o7777))
			try("utimes "+path, unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0))
		}
	}
	attacks["fill"] = func(args []string) {
		// Write as much data as fits, at most 700 MiB.
		for _, dir := range args {
			var st unix.Statfs_t
			broken("statfs", unix.Statfs(dir, &st))
			fd, err := unix.Open(dir+"/fill", unix.O_WRONLY|unix.O_CREAT, 0o600)
			if err != nil {
				held("create in "+dir, err)
				continue
			}
			if size := uint64(st.Bsize) * st.Blocks; size > 512<<20 {
				breach(fmt.Sprintf("%s takes %d MiB", dir, size>>20))
				continue
			}
			try("fill "+dir, unix.Fallocate(fd, 0, 0, 700<<20))
		}
	}
	attacks["memfd"] = func([]string) {
		// A program that is executed from memory is confined as well.
		fd, err := unix.MemfdCreate("program", 0)
		broken("memfd_create", err)
		program, err := os.ReadFile("/proc/self/exe")
		broken("read ourselves", err)
		_, err = os.NewFile(uintptr(fd), "program").Write(program)
		broken("write", err)
		argv := [...]uintptr{text("attacker"), text("capabilities"), 0}
		envp := [...]uintptr{0}
		_, errno := raw(unix.SYS_EXECVEAT, uintptr(fd), text(""), pointer(&argv), pointer(&envp), unix.AT_EMPTY_PATH)
		held("execveat", errno)
	}
	attacks["crawl"] = func(args []string) {
		// Move the working directory while this process is in it, and go up from there.
		broken("mkdir", os.MkdirAll(args[0]+"/a/b/c", 0o755))
		broken("chdir", os.Chdir(args[0]+"/a/b/c"))
		_ = unix.Rename(args[0]+"/a/b", args[0]+"/moved")
		for range 64 {
			_ = os.Chdir("..")
		}
		try("write from above", open("."+args[1], unix.O_WRONLY))
		held("crawl", unix.EROFS)
	}
	attacks["change links"] = func(args []string) {
		// Replace a directory by a link to the outside and back until this process is killed.
		fmt.Println("ready")
		for {
			_ = exchange(args[0], args[1])
		}
	}
}

func exchange(a, b string) error {
	return unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
}

// change tries everything that changes a file without opening it.
func change(path string) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		held("lstat", err)
		return
	}
	mode := st.Mode & 0o7777
	try("fchmodat", unix.Fchmodat(unix.AT_FDCWD, path, mode, 0))
	_, errno := raw(unix.SYS_FCHMODAT2, at, text(path), uintptr(mode), 0)
	report("fchmodat2", errno)
	try("chown", unix.Fchownat(unix.AT_FDCWD, path, int(st.Uid), int(st.Gid), 0))
	try("utimensat", unix.UtimesNanoAt(unix.AT_FDCWD, path, []unix.Timespec{st.Atim, st.Mtim}, 0))
	try("setxattr", unix.Setxattr(path, "user.escape", []byte("x"), 0))
	try("lsetxattr", unix.Lsetxattr(path, "user.escape", []byte("x"), 0))
	_, errno = raw(463, at, text(path), 0, text("user.escape"), pointer(&[4]uintptr{text("x"), 1}), 16)
	report("setxattrat", errno)
	_, errno = raw(469, at, text(path), pointer(&[24]byte{}), 24, 0)
	report("file_setattr", errno)
	if fd, err := unix.Open(path, unix.O_RDONLY, 0); err == nil {
		try("fchmod", unix.Fchmod(fd, mode))
		try("fchown", unix.Fchown(fd, int(st.Uid), int(st.Gid)))
		try("fsetxattr", unix.Fsetxattr(fd, "user.escape", []byte("x"), 0))
		try("reopen", open(fmt.Sprintf("/proc/self/fd/%d", fd), unix.O_RDWR))
	}
	if fd, err := unix.Open(path, unix.O_PATH, 0); err == nil {
		link := fmt.Sprintf("/proc/self/fd/%d", fd)
		try("reopen a place", open(link, unix.O_RDWR))
		try("chmod a place", unix.Chmod(link, mode))
	}
	legacy(path)
}

// protected tries every way to create or replace a name.
func protected(name string) {
	dir, base := filepath.Dir(name), filepath.Base(name)
	broken("own directory", os.MkdirAll(dir+"/own", 0o755))
	broken("own file", os.WriteFile(dir+"/own/config", []byte("[evil]\n"), 0o644))
	broken("own file", os.WriteFile(dir+"/ownfile", []byte("[evil]\n"), 0o644))
	if err := unix.Rmdir(name); err == nil {
		breach("rmdir " + base)
	}
	if err := unix.Unlink(name); err == nil {
		breach("unlink " + base)
	}
	try("rename away", unix.Rename(name, dir+"/away"))
	try("rename a directory to "+base, unix.Rename(dir+"/own", name))
	try("rename a file to "+base, unix.Rename(dir+"/ownfile", name))
	try("exchange with "+base, exchange(dir+"/own", name))
	try("whiteout "+base, unix.Renameat2(unix.AT_FDCWD, dir+"/ownfile", unix.AT_FDCWD, name, 4))
	try("link to "+base, unix.Link(dir+"/ownfile", name))
	try("symlink to "+base, unix.Symlink("own", name))
	try("mkdir "+base, unix.Mkdir(name, 0o755))
	try("create "+base, open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL))
	try("write "+base, open(name, unix.O_WRONLY))
	try("create in "+base, open(name+"/config", unix.O_WRONLY|unix.O_CREAT))
	try("mkdir in "+base, unix.Mkdir(name+"/hooks", 0o755))
	try("O_TMPFILE in "+base, open(name, unix.O_TMPFILE|unix.O_WRONLY))
	if fd, err := unix.Open(dir, unix.O_TMPFILE|unix.O_WRONLY, 0o600); err == nil {
		try("linkat an unnamed file to "+base, unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", fd), unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW))
	}
	try("mknod "+base, unix.Mknod(name, unix.S_IFREG|0o600, 0))
	try("mkfifo "+base, unix.Mkfifo(name, 0o600))
	_, errno := raw(unix.SYS_MOUNT, text(dir+"/own"), text(name), 0, unix.MS_BIND, 0)
	report("bind to "+base, errno)
	if errno == 0 { // this happens only outside; remove the file, so that none is left
		broken("unmount", unix.Unmount(name, unix.MNT_DETACH))
	}
	try("chmod "+base, unix.Chmod(name, 0o777))
	try("utimes "+base, unix.Utimes(name, make([]unix.Timeval, 2)))
	if _, err := os.Stat(name + "/config"); err == nil {
		breach(base + " has been made")
	}
}

// firstProcess returns the number by which /proc knows the first process of this PID namespace. It is 1 only if /proc belongs to the
// namespace.
func firstProcess() string {
	for pid := "self"; pid != "0"; {
		status, err := os.ReadFile("/proc/" + pid + "/status")
		broken("read the state of a process", err)
		field := func(name string) []string {
			_, after, _ := strings.Cut(string(status), "\n"+name+":")
			line, _, _ := strings.Cut(after, "\n")
			return strings.Fields(line)
		}
		numbers, parent := field("NSpid"), field("PPid")
		if len(numbers) == 0 || len(parent) != 1 {
			broken("read the numbers of "+pid, unix.ENODATA)
		}
		if numbers[len(numbers)-1] == "1" {
			return field("Pid")[0]
		}
		pid = parent[0]
	}
	broken("find the first process", unix.ESRCH)
	return ""
}

// covers looks for a writable mount of the file system that masks come from, and for a mount over
// the root, which only ".." of the root leads to.
func covers(args []string) {
	info, err := os.ReadFile("/proc/self/mountinfo")
	broken("read the mounts", err)
	device := ""
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); f[4] == args[0] {
			device = f[2]
		}
	}
	if device == "" {
		broken("find the mask", unix.ENOENT)
	}
	for line := range strings.Lines(string(info)) {
		if f := strings.Fields(line); f[2] == device && !slices.Contains(strings.Split(f[5], ","), "ro") {
			breach("the covers may be written at " + f[4])
		}
	}
	var root, above unix.Stat_t
	broken("look at the root", unix.Stat("/", &root))
	broken("look above the root", unix.Stat("/..", &above))
	if root.Dev != above.Dev || root.Ino != above.Ino {
		breach("something is mounted over the root")
	}
	held("covers", unix.EROFS)
}

// contents tries every way to change the content or the name of a file.
func contents(path string) {
	for name, flags := range map[string]int{"O_WRONLY": unix.O_WRONLY, "O_RDWR": unix.O_RDWR, "O_TRUNC": unix.O_RDONLY | unix.O_TRUNC, "O_APPEND": unix.O_WRONLY | unix.O_APPEND} {
		try("open with "+name, open(path, flags))
	}
	try("truncate", unix.Truncate(path, 1))
	try("rename", unix.Rename(path, path+".moved"))
	try("unlink", unix.Unlink(path))
	try("create beside", open(path+".new", unix.O_WRONLY|unix.O_CREAT))
	try("mkdir beside", unix.Mkdir(path+".dir", 0o755))
	try("symlink beside", unix.Symlink("x", path+".link"))
	try("link beside", unix.Link(path, path+".hard"))
	try("mkfifo beside", unix.Mkfifo(path+".fifo", 0o600))
	try("O_TMPFILE beside", open(filepath.Dir(path), unix.O_TMPFILE|unix.O_WRONLY))
}

// everyday does what ordinary programs do in a sandbox with two writable directories: the current
// one and args[0]. A breach here means that it works.
func everyday(args []string) {
	other := args[0]
	write := func(path string, flags int, text string) error {
		fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC|flags, 0o644)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		_, err = unix.Write(fd, []byte(text))
		return err
	}
	try("make a file", write("file", unix.O_CREAT|unix.O_EXCL, "x"))
	try("make a directory", unix.Mkdir("dir", 0o755))
	try("rename to another directory", unix.Rename("file", "dir/file"))
	try("link in another directory", unix.Link("dir/file", "link"))
	try("truncate", unix.Truncate("dir/file", 0))
	try("make a file in the other directory", write(other+"/file", unix.O_CREAT, "x"))
	if err := unix.Rename("link", other+"/link"); err != unix.EXDEV { // the directories are on two mounts
		try("rename to the other directory", err)
	}
	try("make a FIFO", unix.Mkfifo("fifo", 0o644))
	try("open a FIFO", open("fifo", unix.O_RDWR|unix.O_NONBLOCK))
	for _, name := range []string{"null", "zero", "full", "random", "urandom"} {
		try("open /dev/"+name, open("/dev/"+name, unix.O_RDWR))
	}
	try("truncate and write /dev/null", write("/dev/null", unix.O_TRUNC|unix.O_CREAT, "x"))
	try("write in /dev/shm", write("/dev/shm/file", unix.O_CREAT|unix.O_TRUNC, "x"))
	try("write to the file that is standard output", write("/proc/self/fd/1", unix.O_APPEND, ""))
	if os.Geteuid() != 0 { // root may not write in /proc
		try("set a thread's name", write("/proc/self/comm", unix.O_TRUNC, "name"))
		try("set oom_score_adj", write("/proc/self/oom_score_adj", unix.O_TRUNC, "900"))
	}
	try("use a terminal", func() error {
		fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
			return err
		}
		n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
		if err != nil {
			return err
		}
		tty, err := unix.Open(fmt.Sprintf("/dev/pts/%d", n), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		_, err = unix.IoctlGetTermios(tty, unix.TCGETS)
		return err
	}())
	try("signal one's own", unix.Kill(unix.Getpid(), 0))
}
