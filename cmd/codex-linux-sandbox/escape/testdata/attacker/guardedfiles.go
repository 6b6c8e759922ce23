package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

func init() {
	attacks["guarded descriptors"] = guardedDescriptors
	attacks["sent descriptors"] = sentDescriptors
	attacks["receive descriptor"] = receiveDescriptor
}

// oldDescriptorCalls are those that only some architectures have.
var oldDescriptorCalls = func(int) {}

// guardedDescriptors tries all calls with descriptors of a guarded directory and of guarded files that are open for reading, or
// only as a place. args: a directory in which it makes files, and the guarded directory.
func guardedDescriptors(args []string) {
	dir, guarded := args[0], args[1]
	broken("mkdir", os.MkdirAll(dir, 0o755))
	broken("write", os.WriteFile(dir+"/source", []byte(strings.Repeat("evil", 1024)), 0o644))
	for n, flags := range []int{unix.O_RDONLY, unix.O_PATH, unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW} {
		fd, err := unix.Open(fmt.Sprintf("%s/f%d", guarded, n), flags|unix.O_CLOEXEC, 0)
		broken("open", err)
		attributesOf(fd, fmt.Sprintf(" of a file open with %#x", flags))
		contentsOf(fd, dir)
		oldDescriptorCalls(fd)
		d, err := unix.Open(fmt.Sprintf("%s/d%d", guarded, n), flags|unix.O_CLOEXEC, 0)
		broken("open", err)
		attributesOf(d, fmt.Sprintf(" of a directory open with %#x", flags))
		again(fd, dir, n)
		top, err := unix.Open(guarded, flags|unix.O_CLOEXEC|unix.O_DIRECTORY, 0)
		broken("open", err)
		within(top, dir, n+10)
		_ = unix.Close(top)
	}
}

// attributesOf changes attributes of a descriptor.
func attributesOf(n int, of string) {
	fd, me, group := uintptr(n), uintptr(os.Getuid()), uintptr(os.Getgid())
	value := pointer(&[2]uintptr{text("x"), 1})
	for _, c := range []struct {
		name string
		nr   uintptr
		args []uintptr
	}{
		{"fchmod", unix.SYS_FCHMOD, []uintptr{fd, 0o640}},
		{"fchmod with high bits", unix.SYS_FCHMOD, []uintptr{0xdead<<32 | fd, 0o640}},
		{"fchown", unix.SYS_FCHOWN, []uintptr{fd, me, group}},
		{"fsetxattr", unix.SYS_FSETXATTR, []uintptr{fd, attribute, text("x"), 1, 0}},
		{"fremovexattr", unix.SYS_FREMOVEXATTR, []uintptr{fd, attributeThere}},
		{"futimens", unix.SYS_UTIMENSAT, []uintptr{fd, 0, 0, 0}},
		{"utimensat without a path", unix.SYS_UTIMENSAT, []uintptr{fd, empty, 0, unix.AT_EMPTY_PATH}},
		{"fchmodat2 without a path", unix.SYS_FCHMODAT2, []uintptr{fd, empty, 0o640, unix.AT_EMPTY_PATH}},
		{"fchownat without a path", unix.SYS_FCHOWNAT, []uintptr{fd, empty, me, group, unix.AT_EMPTY_PATH}},
		{"setxattrat without a path", 463, []uintptr{fd, empty, unix.AT_EMPTY_PATH, attribute, value, 16}},
		{"setxattrat with a null path", 463, []uintptr{fd, 0, unix.AT_EMPTY_PATH, attribute, value, 16}},
		{"removexattrat without a path", 466, []uintptr{fd, empty, unix.AT_EMPTY_PATH, attribute}},
		{"file_setattr without a path", 469, []uintptr{fd, empty, pointer(&[3]uint64{}), 24, unix.AT_EMPTY_PATH}},
		{"FS_IOC_SETFLAGS", unix.SYS_IOCTL, []uintptr{fd, unix.FS_IOC_SETFLAGS, pointer(new(uint64(0x40)))}},
		{"FS_IOC_FSSETXATTR", unix.SYS_IOCTL, []uintptr{fd, 0x401c5820, pointer(&[7]uint32{0x80})}},
		{"FS_IOC_SETVERSION", unix.SYS_IOCTL, []uintptr{fd, 0x40087602, pointer(new(uint64(7)))}},
		{"FS_IOC_ENABLE_VERITY", unix.SYS_IOCTL, []uintptr{fd, 0x40806685, pointer(&[16]uint64{1 | 1<<32, 4096})}},
		{"FS_IOC_SET_ENCRYPTION_POLICY", unix.SYS_IOCTL, []uintptr{fd, 0x800c6613, pointer(&[12]byte{})}},
		{"EXT4_IOC_MIGRATE", unix.SYS_IOCTL, []uintptr{fd, 0x6609}},
	} {
		_, errno := raw(c.nr, c.args...)
		report(c.name+of, errno)
	}
}

// contentsOf changes the content of a descriptor that is not open for writing.
func contentsOf(fd int, dir string) {
	source, err := unix.Open(dir+"/source", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open", err)
	defer unix.Close(source)
	_, err = unix.Write(fd, []byte("evil"))
	try("write", err)
	try("ftruncate", unix.Ftruncate(fd, 1))
	for _, mode := range []uint32{0, unix.FALLOC_FL_KEEP_SIZE | unix.FALLOC_FL_PUNCH_HOLE, unix.FALLOC_FL_ZERO_RANGE, unix.FALLOC_FL_COLLAPSE_RANGE} {
		try(fmt.Sprint("fallocate ", mode), unix.Fallocate(fd, mode, 0, 4096))
	}
	if memory, err := unix.Mmap(fd, 0, 4096, unix.PROT_READ, unix.MAP_SHARED); err == nil {
		try("mprotect", unix.Mprotect(memory, unix.PROT_READ|unix.PROT_WRITE))
		_ = unix.Munmap(memory)
	}
	_, err = unix.Mmap(fd, 0, 4096, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	try("mmap", err)
	try("FICLONE", unix.IoctlFileClone(fd, source))
	try("FICLONERANGE", unix.IoctlFileCloneRange(fd, &unix.FileCloneRange{Src_fd: int64(source), Src_length: 4096}))
	_, err = unix.CopyFileRange(source, nil, fd, nil, 16, 0)
	try("copy_file_range", err)
	_, err = unix.Sendfile(fd, source, nil, 16)
	try("sendfile", err)
	var pipe [2]int
	broken("pipe", unix.Pipe2(pipe[:], unix.O_CLOEXEC|unix.O_NONBLOCK))
	_, _ = unix.Write(pipe[1], []byte("evil"))
	_, err = unix.Splice(pipe[0], nil, fd, nil, 4, 0)
	try("splice", err)
	_ = unix.Close(pipe[0])
	_ = unix.Close(pipe[1])
}

// again opens the file of a descriptor again, changes it by the links to the descriptor, and makes links to it.
func again(fd int, dir string, n int) {
	link := fmt.Sprintf("%s/fd%d", dir, n)
	broken("symlink", unix.Symlink(fmt.Sprint("/proc/self/fd/", fd), link))
	table, err := unix.Open("/proc/self/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	broken("open", err)
	defer unix.Close(table)
	saved, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 100)
	broken("dup", err)
	broken("dup", unix.Dup3(fd, 0, unix.O_CLOEXEC))
	defer func() { _ = unix.Dup3(saved, 0, 0); _ = unix.Close(saved) }()
	paths := []string{
		fmt.Sprint("/proc/self/fd/", fd), fmt.Sprint("/proc/thread-self/fd/", fd), fmt.Sprintf("/proc/%d/fd/%d", os.Getpid(), fd),
		fmt.Sprintf("/proc/self/task/%d/fd/%d", unix.Gettid(), fd), fmt.Sprint("/dev/fd/", fd), "/dev/stdin", fmt.Sprintf("/proc/self/../%d/fd/%d", os.Getpid(), fd),
		fmt.Sprintf("//proc/./self/fd/../fd/%d", fd), link, fmt.Sprintf("/proc/self/root/proc/self/fd/%d", fd), fmt.Sprintf("/proc/self/fd/%d/%d", table, fd),
	}
	calls := allPathCalls()
	for i, path := range paths {
		for j, c := range calls {
			switch {
			case creates[c.name], strings.HasPrefix(c.name, "rename"), strings.HasPrefix(c.name, "exchange"), strings.Contains(c.name, "unlink"), strings.Contains(c.name, "rmdir"),
				strings.Contains(c.name, "whiteout"), strings.Contains(c.name, "itself"), strings.Contains(c.name, "O_TMPFILE"), strings.HasPrefix(c.name, "l"):
				continue // these are about the name, or about the link in /proc
			}
			try(c.name+" of "+path, c.call(path, path, path, fmt.Sprintf("%s/again%d-%d-%d", dir, n, i, j)))
		}
		name := fmt.Sprintf("%s/linked%d-%d", dir, n, i)
		err := unix.Linkat(unix.AT_FDCWD, path, unix.AT_FDCWD, name, unix.AT_SYMLINK_FOLLOW)
		try("linkat of "+path, err)
	}
	try("linkat without a path", unix.Linkat(fd, "", unix.AT_FDCWD, fmt.Sprintf("%s/linked%d", dir, n), unix.AT_EMPTY_PATH))
	opened, err := unix.Openat(table, fmt.Sprint(fd), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	try("openat in /proc/self/fd", written(uintptr(opened), errnoOf(err)))
}

// within changes a guarded directory by a descriptor of it.
func within(top int, dir string, n int) {
	own := fmt.Sprintf("%s/own%d", dir, n)
	broken("write", os.WriteFile(own, []byte("evil"), 0o644))
	name := func(s string) string { return fmt.Sprint(s, n) }
	fd, err := unix.Openat(top, name("f"), unix.O_WRONLY|unix.O_CLOEXEC, 0)
	try("openat", written(uintptr(fd), errnoOf(err)))
	fd, err = unix.Openat(top, name("new"), unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	try("openat with O_CREAT", written(uintptr(fd), errnoOf(err)))
	fd, err = unix.Openat(top, ".", unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o600)
	try("openat with O_TMPFILE", written(uintptr(fd), errnoOf(err)))
	fd, err = unix.Openat2(top, name("f"), &unix.OpenHow{Flags: unix.O_RDWR, Resolve: unix.RESOLVE_BENEATH})
	try("openat2 with RESOLVE_BENEATH", written(uintptr(fd), errnoOf(err)))
	fd, err = unix.Openat2(top, "/"+name("f"), &unix.OpenHow{Flags: unix.O_RDWR, Resolve: unix.RESOLVE_IN_ROOT})
	try("openat2 with RESOLVE_IN_ROOT", written(uintptr(fd), errnoOf(err)))
	try("mkdirat", unix.Mkdirat(top, name("dir"), 0o755))
	try("mknodat", unix.Mknodat(top, name("fifo"), unix.S_IFIFO|0o600, 0))
	try("symlinkat", unix.Symlinkat("x", top, name("sym")))
	try("linkat", unix.Linkat(unix.AT_FDCWD, own, top, name("hard"), 0))
	try("fchmodat", unix.Fchmodat(top, name("f"), 0o640, 0))
	try("fchownat", unix.Fchownat(top, name("f"), os.Getuid(), os.Getgid(), 0))
	try("utimensat", unix.UtimesNanoAt(top, name("f"), times(n), 0))
	try("linkat out", unix.Linkat(top, name("f"), unix.AT_FDCWD, own+".hard", 0))
	try("renameat out", unix.Renameat(top, name("f"), unix.AT_FDCWD, own+".moved"))
	try("renameat in", unix.Renameat(unix.AT_FDCWD, own, top, name("moved")))
	try("unlinkat", unix.Unlinkat(top, name("d"), unix.AT_REMOVEDIR))
	if err := unix.Fchdir(top); err == nil {
		try("bind", bound(name("socket")))
		try("create in the working directory", open(name("cwd"), unix.O_WRONLY|unix.O_CREAT))
		broken("chdir", os.Chdir(filepath.Dir(dir)))
	}
}

// sentDescriptors sends descriptors of guarded files to another process of the sandbox, which uses them. args: as guardedDescriptors.
func sentDescriptors(args []string) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	broken("socketpair", err)
	directory, err := unix.Open(args[1], unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	broken("open", err)
	file, err := unix.Open(args[1]+"/f0", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open", err)
	broken("send", unix.Sendmsg(pair[1], []byte{1}, unix.UnixRights(directory, file), nil, 0))
	_ = unix.Close(pair[1])
	broken("dup", unix.Dup3(pair[0], 0, 0))
	broken("exec", unix.Exec("/proc/self/exe", []string{"attacker", "receive descriptor", args[0]}, os.Environ()))
}

func receiveDescriptor(args []string) {
	broken("mkdir", os.MkdirAll(args[0], 0o755))
	oob := make([]byte, unix.CmsgSpace(4*2))
	_, n, _, _, err := unix.Recvmsg(0, make([]byte, 1), oob, 0)
	broken("receive", err)
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	broken("parse", err)
	fds, err := unix.ParseUnixRights(&messages[0])
	broken("parse", err)
	within(fds[0], args[0], 20)
	attributesOf(fds[1], " that was sent")
	try("reopen", open(fmt.Sprint("/proc/self/fd/", fds[1]), unix.O_RDWR))
}
