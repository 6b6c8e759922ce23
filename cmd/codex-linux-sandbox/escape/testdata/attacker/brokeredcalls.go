package main

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// masksOfModes makes files with several masks of modes. args: a directory.
func masksOfModes(args []string) {
	dir := args[0]
	broken("mkdir", os.MkdirAll(dir, 0o777))
	n := 0
	makeAll := func(mask uint32) {
		n++
		for name, f := range map[string]func(path string) error{
			"open":  func(path string) error { return open(path, unix.O_WRONLY|unix.O_CREAT) },
			"mkdir": func(path string) error { return unix.Mkdir(path, 0o777) },
			"mknod": func(path string) error { return unix.Mknod(path, unix.S_IFREG|0o666, 0) },
			"fifo":  func(path string) error { return unix.Mkfifo(path, 0o666) },
			"bind":  bound,
			"openat2": func(path string) error {
				fd, err := unix.Openat2(unix.AT_FDCWD, path, &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o666})
				return written(uintptr(fd), errnoOf(err))
			},
			"O_TMPFILE": func(path string) error {
				fd, err := unix.Open(dir, unix.O_WRONLY|unix.O_TMPFILE|unix.O_CLOEXEC, 0o666)
				if err != nil {
					return err
				}
				defer unix.Close(fd)
				return unix.Linkat(unix.AT_FDCWD, fmt.Sprint("/proc/self/fd/", fd), unix.AT_FDCWD, path, unix.AT_SYMLINK_FOLLOW)
			},
		} {
			path := fmt.Sprintf("%s/%s%d", dir, name, n)
			if err := f(path); err != nil {
				fmt.Printf("%s: %v\n", name, err)
				continue
			}
			var st unix.Stat_t
			broken("stat", unix.Lstat(path, &st))
			want := uint32(0o666)
			switch name {
			case "open":
				want = 0o600
			case "mkdir", "bind":
				want = 0o777
			}
			if got := st.Mode & 0o777; got != want&^mask {
				breach(fmt.Sprintf("%s with mask %03o made mode %03o, want %03o", name, mask, got, want&^mask))
			}
		}
	}
	makeAll(0o022)
	for _, mask := range []uint32{0o077, 0o027, 0, 0o777} {
		unix.Umask(int(mask))
		makeAll(mask)
	}
	// A thread may have a mask of its own.
	unix.Umask(0)
	var wait sync.WaitGroup
	wait.Go(func() {
		runtime.LockOSThread()
		broken("unshare", unix.Unshare(unix.CLONE_FS))
		unix.Umask(0o077)
		makeAll(0o077)
	})
	wait.Wait()
	makeAll(0)
	held("masks of modes", unix.EACCES)
}

// ownListener installs a filter of its own that supervises calls, and lets them go on: as the newest filter it would be asked in place
// of the one that the sandbox has. args: a file that must not change.
func ownListener(args []string) {
	filter := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS}, {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: unix.SYS_FCHMOD, Jf: 1},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_USER_NOTIF}, {Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open", err)
	broken("no_new_privs", unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	program := pointer(&unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]})
	listeners := make(chan int)
	result := make(chan error)
	go func() {
		runtime.LockOSThread()
		listener, errno := raw(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_NEW_LISTENER, program)
		if errno != 0 {
			held("install a filter", errno)
			listeners <- -1
			return
		}
		listeners <- int(listener)
		result <- unix.Fchmod(fd, 0o640)
	}()
	listener := <-listeners
	if listener >= 0 {
		var call [80]byte
		_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_RECV, uintptr(unsafe.Pointer(&call)))
		broken("receive a call", failure(errno))
		answer := struct {
			id, value    uint64
			errno, flags int32
		}{id: *(*uint64)(unsafe.Pointer(&call)), flags: 1}
		_, _, errno = unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_SEND, uintptr(unsafe.Pointer(&answer)))
		broken("let it go on", failure(errno))
		try("a call that went on", <-result)
	}
	// A filter that allows everything takes nothing away.
	filter[1].K = ^uint32(0)
	_, errno := raw(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 1, program)
	fmt.Printf("a filter that allows everything: %v\n", errno)
	try("fchmod below it", unix.Fchmod(fd, 0o640))
}

// innerLandlock forbids itself by Landlock to change files, and changes some. args: a directory.
func innerLandlock(args []string) {
	dir := args[0]
	broken("mkdir", os.MkdirAll(dir+"/d", 0o755))
	for _, name := range []string{"a", "b", "c"} {
		broken("write", os.WriteFile(dir+"/"+name, nil, 0o644))
	}
	const writes = 0x1ff2 // WRITE_FILE and all that make and remove entries
	attr := unix.LandlockRulesetAttr{Handled_access_fs: writes}
	rules, errno := raw(unix.SYS_LANDLOCK_CREATE_RULESET, pointer(&attr), 8, 0)
	if errno != 0 {
		held("make a ruleset", errno)
		return
	}
	if _, errno := raw(unix.SYS_LANDLOCK_RESTRICT_SELF, rules, 0); errno != 0 {
		held("restrict itself", errno)
		return
	}
	try("open for writing", open(dir+"/a", unix.O_WRONLY))
	try("create", open(dir+"/new", unix.O_WRONLY|unix.O_CREAT))
	try("mkdir", unix.Mkdir(dir+"/e", 0o755))
	try("unlink", unix.Unlink(dir+"/b"))
	try("rmdir", unix.Rmdir(dir+"/d"))
	try("rename", unix.Rename(dir+"/c", dir+"/f"))
	try("symlink", unix.Symlink("x", dir+"/g"))
	try("link", unix.Link(dir+"/a", dir+"/h"))
	try("mkfifo", unix.Mkfifo(dir+"/i", 0o600))
	try("bind", bound(dir+"/j"))
}

// manyWriters opens a FIFO for writing in many threads, which wait for a reader. Other calls must not wait. args: a directory, and the
// number of writers.
func manyWriters(args []string) {
	dir := args[0]
	count, err := strconv.Atoi(args[1])
	broken("arguments", err)
	broken("mkdir", os.MkdirAll(dir, 0o755))
	broken("mkfifo", unix.Mkfifo(dir+"/fifo", 0o600))
	var wait sync.WaitGroup
	opened := make(chan int, count)
	for range count {
		wait.Go(func() {
			for {
				fd, err := unix.Open(dir+"/fifo", unix.O_WRONLY|unix.O_CLOEXEC, 0)
				if err != unix.EINTR {
					broken("open the FIFO", err)
					opened <- fd
					return
				}
			}
		})
	}
	slowest := time.Duration(0)
	for n := range 200 {
		start := time.Now()
		broken("create", open(dir+"/file"+label(n), unix.O_WRONLY|unix.O_CREAT))
		slowest = max(slowest, time.Since(start))
	}
	const most = 2 * time.Second
	if slowest > most {
		breach(fmt.Sprintf("a file took %v while %d writers waited", slowest, count))
	}
	if len(opened) > 0 {
		breach("a writer did not wait for a reader")
	}
	reader, err := unix.Open(dir+"/fifo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open for reading", err)
	wait.Wait()
	for range count {
		fd := <-opened
		if flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0); flags&unix.O_NONBLOCK != 0 {
			breach("a descriptor does not block")
		}
		_ = unix.Close(fd)
	}
	_ = unix.Close(reader)
	fmt.Printf("slowest: %v\n", slowest)
	held("many writers", unix.EAGAIN)
}

// signalsByDescriptors makes the kernel send signals to a process outside. args: its id.
func signalsByDescriptors(args []string) {
	pid, err := strconv.Atoi(args[0])
	broken("arguments", err)
	for _, owner := range []func(fd int) error{
		func(fd int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, pid); return err },
		func(fd int) error { _, err := unix.FcntlInt(uintptr(fd), unix.F_SETOWN, -pid); return err },
		func(fd int) error {
			_, errno := raw(unix.SYS_FCNTL, uintptr(fd), unix.F_SETOWN_EX, pointer(&[2]int32{1, int32(pid)}))
			return failure(errno)
		},
		func(fd int) error { return unix.IoctlSetPointerInt(fd, 0x8901, pid) }, // FIOSETOWN
		func(fd int) error { return unix.IoctlSetPointerInt(fd, 0x8902, pid) }, // SIOCSPGRP
	} {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		broken("socketpair", err)
		if err := owner(pair[0]); err != nil {
			held("own a descriptor", err)
			continue
		}
		_, _ = unix.FcntlInt(uintptr(pair[0]), unix.F_SETSIG, int(unix.SIGTERM))
		_, err = unix.FcntlInt(uintptr(pair[0]), unix.F_SETFL, unix.O_ASYNC)
		broken("O_ASYNC", err)
		_, err = unix.Write(pair[1], []byte("x"))
		held("send by a descriptor", err)
	}
}

// threads opens files in a thread with a working directory and a table of its own. args: a directory.
func threads(args []string) {
	dir := args[0]
	for _, name := range []string{"one", "two"} {
		broken("mkdir", os.MkdirAll(dir+"/"+name, 0o755))
		broken("write", os.WriteFile(dir+"/"+name+"/file", nil, 0o644))
	}
	one, err := unix.Open(dir+"/one", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open", err)
	two, err := unix.Open(dir+"/two", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open", err)
	const number = 200
	check := func(who, dir string) {
		for what, path := range map[string]string{"relative": "file", "by number": "/proc/thread-self/fd/200/file"} {
			fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
			if err != nil {
				held(who+" "+what, err)
				continue
			}
			got, _ := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(fd))
			_ = unix.Close(fd)
			if got != dir+"/file" {
				breach(fmt.Sprintf("%s %s: got %s, want %s/file", who, what, got, dir))
			}
		}
		fd, err := unix.Openat(number, "file", unix.O_WRONLY|unix.O_CLOEXEC, 0)
		broken("open in a directory of "+who, err)
		if got, _ := os.Readlink("/proc/thread-self/fd/" + strconv.Itoa(fd)); got != dir+"/file" {
			breach(fmt.Sprintf("%s in a directory: got %s, want %s/file", who, got, dir))
		}
		_ = unix.Close(fd)
		if err := unix.Fchmodat(number, "file", 0o600, 0); err != nil {
			breach("chmod: " + err.Error())
		}
	}
	broken("chdir", unix.Fchdir(one))
	broken("dup", unix.Dup3(one, number, unix.O_CLOEXEC))
	var wait sync.WaitGroup
	wait.Go(func() {
		runtime.LockOSThread()
		broken("unshare", unix.Unshare(unix.CLONE_FS|unix.CLONE_FILES))
		broken("chdir", unix.Fchdir(two))
		broken("dup", unix.Dup3(two, number, unix.O_CLOEXEC))
		check("the thread", dir+"/two")
	})
	wait.Wait()
	check("the process", dir+"/one")
	held("threads", unix.EACCES)
}

// heldFile opens a file for reading, waits for a line, and changes it. args: the file.
func heldFile(args []string) {
	fd, err := unix.Open(args[0], unix.O_RDONLY|unix.O_CLOEXEC, 0)
	broken("open", err)
	fmt.Println("ready")
	_, _ = os.Stdin.Read(make([]byte, 1))
	attributesOf(fd, " of a file that was replaced")
	link := fmt.Sprint("/proc/self/fd/", fd)
	opened, err := unix.Open(link, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	try("reopen", written(uintptr(opened), errnoOf(err)))
	try("truncate", unix.Truncate(link, 1))
	try("link", unix.Linkat(unix.AT_FDCWD, link, unix.AT_FDCWD, "held", unix.AT_SYMLINK_FOLLOW))
}

// writtenPrograms writes programs, and executes each at once. args: a directory, and the number of programs.
func writtenPrograms(args []string) {
	dir := args[0]
	count, err := strconv.Atoi(args[1])
	broken("arguments", err)
	broken("mkdir", os.MkdirAll(dir, 0o755))
	program, err := os.ReadFile("/proc/self/exe")
	broken("read ourselves", err)
	for n := range count {
		name := dir + "/program" + label(n)
		fd, err := unix.Open(name, unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o755)
		broken("create", err)
		_, err = unix.Write(fd, program)
		broken("write", err)
		broken("close", unix.Close(fd))
		pid, err := syscall.ForkExec(name, []string{name, "nothing"}, &syscall.ProcAttr{})
		if err != nil {
			breach("execute what was written: " + err.Error())
			break
		}
		_, _ = unix.Wait4(pid, nil, 0, nil)
		broken("remove", unix.Unlink(name))
	}
	held("written programs", unix.ETXTBSY)
}

// bindExchanged binds a socket to a name again and again, which another sandbox exchanges with the socket of a server outside, and connects
// to both names. args: the name, that of the server, and the number of rounds.
func bindExchanged(args []string) {
	own, server := args[0], args[1]
	rounds, err := strconv.Atoi(args[2])
	broken("arguments", err)
	exchanged := 0
	var outside, now unix.Stat_t
	broken("stat", unix.Lstat(server, &outside))
	for range rounds {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		broken("socket", err)
		broken("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: own}))
		for end := time.Now().Add(2 * time.Second); time.Now().Before(end); {
			if unix.Lstat(own, &now) == nil && now.Ino == outside.Ino {
				exchanged++
				break
			}
		}
		client, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		broken("socket", err)
		if err := unix.Connect(client, &unix.SockaddrUnix{Name: own}); err == nil {
			breach("connected to the server outside")
			break
		}
		_ = unix.Close(client)
		_ = unix.Close(fd)
		if now.Ino == outside.Ino {
			broken("say that it is done", open(own+".done", unix.O_WRONLY|unix.O_CREAT))
			waitFor(own+".back", true)
		}
		broken("unlink", unix.Unlink(own))
		_ = unix.Unlink(own + ".back")
	}
	fmt.Printf("%d rounds, %d exchanged\n", rounds, exchanged)
	held("connect to the server outside", unix.EPERM)
}

// exchangeBound exchanges two names as soon as both are there, and back when the other sandbox is done. args: as bindExchanged.
func exchangeBound(args []string) {
	fmt.Println("ready")
	for {
		if exchange(args[0], args[1]) != nil {
			continue
		}
		waitFor(args[0]+".done", true)
		_ = exchange(args[0], args[1])
		_ = unix.Rename(args[0]+".done", args[0]+".back")
		waitFor(args[0]+".back", false)
	}
}

// waitFor waits until a file is there, or gone.
func waitFor(name string, there bool) {
	for (unix.Access(name, unix.F_OK) == nil) != there {
		time.Sleep(time.Millisecond)
	}
}
