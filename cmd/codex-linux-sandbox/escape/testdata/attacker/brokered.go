package main

import (
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// These attacks are about a process that makes calls for others: that it makes them with its own context, that it mixes callers up,
// that it is stopped or looked into, and that a restriction of the caller does not hold for it.

func init() {
	attacks["ancestors"] = func([]string) { ancestors(lookInto) }
	attacks["files of processes"] = filesOfProcesses
	attacks["descriptors at the start"] = descriptorsAtTheStart
	attacks["storm"] = storm
	attacks["killed callers"] = killedCallers
	attacks["caller"] = caller
	attacks["masks of modes"] = masksOfModes
	attacks["a listener of its own"] = ownListener
	attacks["inner Landlock"] = innerLandlock
	attacks["many writers of a FIFO"] = manyWriters
	attacks["signals by descriptors"] = signalsByDescriptors
	attacks["threads"] = threads
	attacks["held file"] = heldFile
	attacks["bind exchanged"] = bindExchanged
	attacks["exchange bound"] = exchangeBound
	attacks["written programs"] = writtenPrograms
	attacks["nothing"] = func([]string) {}
}

// ancestors calls a function for each process above this one, until one belongs to another user.
func ancestors(do func(pid int)) {
	for pid := os.Getppid(); pid > 1; {
		var st unix.Stat_t
		if unix.Stat("/proc/"+strconv.Itoa(pid), &st) != nil || int(st.Uid) != os.Getuid() {
			break
		}
		do(pid)
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		if len(fields) < 2 {
			break
		}
		pid, _ = strconv.Atoi(fields[1])
	}
	held("ancestors", unix.EPERM)
}

// lookInto tries to read and to change a process.
func lookInto(pid int) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	for _, name := range []string{"mem", "environ", "maps", "auxv", "syscall", "cwd/", "root/", "fd/0", "fd/3", "map_files/", "ns/mnt"} {
		try("read "+name+" of an ancestor", look(dir+name))
	}
	for _, name := range []string{"mem", "comm", "oom_score_adj", "coredump_filter", "clear_refs"} {
		try("write "+name+" of an ancestor", open(dir+name, unix.O_WRONLY))
	}
	for n := range 32 {
		if open(dir+"fd/"+strconv.Itoa(n), unix.O_WRONLY|unix.O_NONBLOCK) == nil {
			breach(fmt.Sprintf("open descriptor %d of an ancestor", n))
		}
	}
	call("PTRACE_SEIZE", unix.SYS_PTRACE, unix.PTRACE_SEIZE, uintptr(pid), 0, 0)
	b := make([]byte, 8)
	v := &unix.Iovec{Base: &b[0], Len: 8}
	call("process_vm_readv", unix.SYS_PROCESS_VM_READV, uintptr(pid), pointer(v), 1, pointer(v), 1, 0)
	if fd, err := unix.PidfdOpen(pid, 0); err == nil {
		for n := range 16 {
			call("pidfd_getfd", unix.SYS_PIDFD_GETFD, uintptr(fd), uintptr(n), 0)
		}
	}
	var limit unix.Rlimit
	if unix.Prlimit(pid, unix.RLIMIT_CORE, nil, &limit) == nil {
		try("prlimit", unix.Prlimit(pid, unix.RLIMIT_CORE, &limit, nil))
	}
	try("signal an ancestor", unix.Kill(pid, 0))
}

// filesOfProcesses writes to its own files in /proc by several spellings, and checks that no file of an ancestor changed: a process
// that resolves a path for another one has another /proc/self. args: a directory in which it makes links.
func filesOfProcesses(args []string) {
	broken("mkdir", os.MkdirAll(args[0], 0o755))
	names := []string{"comm", "oom_score_adj", "coredump_filter"}
	read := func() map[string]string {
		all := make(map[string]string)
		ancestors(func(pid int) {
			tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid))
			for _, dir := range append(tasks, fmt.Sprintf("/proc/%d", pid)) {
				for _, name := range names {
					if text, err := os.ReadFile(dir + "/" + name); err == nil {
						all[dir+"/"+name] = string(text)
					}
				}
			}
		})
		return all
	}
	before := read()
	var secret atomic.Int64
	secret.Store(1)
	for i, dir := range []string{"/proc/self", "/proc/thread-self", fmt.Sprint("/proc/", os.Getpid()), "/proc/self/task/../../self"} {
		link := fmt.Sprintf("%s/process%d", args[0], i)
		broken("symlink", unix.Symlink(dir, link))
		for _, dir := range []string{dir, link} {
			for _, name := range names {
				value := map[string]string{"comm": "evil", "oom_score_adj": "901", "coredump_filter": "0x7f"}[name]
				fd, err := unix.Open(dir+"/"+name, unix.O_WRONLY|unix.O_CLOEXEC, 0)
				if err == nil {
					_, err = unix.Write(fd, []byte(value))
					_ = unix.Close(fd)
				}
				fmt.Printf("%s/%s: %v\n", dir, name, err)
			}
			// Memory that is opened must be that of this process.
			fd, err := unix.Open(dir+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
			if err != nil {
				held("mem", err)
				continue
			}
			next := secret.Load() + 1
			_, err = unix.Pwrite(fd, unsafe.Slice((*byte)(unsafe.Pointer(&next)), 8), int64(uintptr(unsafe.Pointer(&secret))))
			if _ = unix.Close(fd); err != nil || secret.Load() != next {
				breach(fmt.Sprintf("%s/mem is not our memory: %v", dir, err))
			}
		}
	}
	for name, now := range read() {
		if was, there := before[name]; there && now != was { // a process may have started threads
			breach(fmt.Sprintf("%s was %q and is %q", name, was, now))
		}
	}
	held("files of processes", unix.EACCES)
}

// descriptorsAtTheStart looks for descriptors that a command did not open.
func descriptorsAtTheStart([]string) {
	entries, err := os.ReadDir("/proc/self/fd")
	broken("read the table", err)
	for _, e := range entries {
		n, _ := strconv.Atoi(e.Name())
		target, err := os.Readlink("/proc/self/fd/" + e.Name())
		// Go's runtime has a few of its own.
		if n > 2 && err == nil && target != "anon_inode:[eventpoll]" && target != "anon_inode:[eventfd]" && !strings.HasPrefix(target, "/sys/fs/cgroup/") {
			breach("descriptor " + e.Name() + " is " + target)
		}
	}
	held("descriptors", unix.EBADF)
}

// table counts the open descriptors.
func table() int {
	entries, err := os.ReadDir("/proc/self/fd")
	broken("read the table", err)
	return len(entries)
}

// interruptible makes a signal of Go's runtime interrupt calls.
func interruptible(sig unix.Signal) {
	signal.Notify(make(chan os.Signal, 1), sig)
	const restart = 0x10000000
	var action struct {
		handler, flags, restorer uintptr
		mask                     uint64
	}
	_, errno := raw(unix.SYS_RT_SIGACTION, uintptr(sig), 0, uintptr(unsafe.Pointer(&action)), 8)
	if errno == 0 {
		action.flags &^= restart
		_, errno = raw(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8)
	}
	if errno != 0 {
		broken("make a signal interrupt calls", errno)
	}
}

// storm opens files in several threads, which signals interrupt. Each call must give the file that it asked for, or no descriptor at
// all. args: a directory, and milliseconds.
func storm(args []string) {
	dir := args[0]
	milliseconds, err := strconv.Atoi(args[1])
	broken("arguments", err)
	broken("mkdir", os.MkdirAll(dir, 0o755))
	interruptible(unix.SIGUSR1)
	before := table()
	var stop atomic.Bool
	var wait sync.WaitGroup
	var good, interrupted, signals atomic.Int64
	ids := make(chan int, 3)
	for i := range 3 {
		wait.Go(func() {
			runtime.LockOSThread()
			ids <- unix.Gettid()
			name := fmt.Sprintf("%s/file%d", dir, i)
			for n := 0; !stop.Load(); n++ {
				fd, err := unix.Open(name, unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
				if err != nil {
					if err != unix.EINTR {
						breach("open: " + err.Error())
						return
					}
					interrupted.Add(1)
					continue
				}
				target, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
				flags, _ := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0)
				if fd <= 2 || err != nil || target != name || flags&unix.FD_CLOEXEC == 0 {
					breach(fmt.Sprintf("%s gave descriptor %d, %q, flags %d", name, fd, target, flags))
					return
				}
				good.Add(1)
				_ = unix.Close(fd)
			}
		})
	}
	threads := []int{<-ids, <-ids, <-ids}
	wait.Go(func() {
		runtime.LockOSThread()
		for n := 0; !stop.Load(); n++ {
			_ = unix.Tgkill(os.Getpid(), threads[n%3], unix.SIGUSR1)
			signals.Add(1)
			for next := time.Now().Add(200 * time.Microsecond); time.Now().Before(next); {
				runtime.Gosched()
			}
		}
	})
	time.Sleep(time.Duration(milliseconds) * time.Millisecond)
	stop.Store(true)
	wait.Wait()
	if after := table(); after > before+2 { // the runtime may have opened two
		breach(fmt.Sprintf("%d descriptors became %d", before, after))
	}
	fmt.Printf("opened %d, interrupted %d, signals %d\n", good.Load(), interrupted.Load(), signals.Load())
	if good.Load() == 0 {
		breach("no file could be opened")
	}
	held("storm", unix.EINTR)
}

// killedCallers kills processes in the middle of their calls. Each makes files in its own directory only. args: a directory, and the
// number of processes.
func killedCallers(args []string) {
	dir := args[0]
	count, err := strconv.Atoi(args[1])
	broken("arguments", err)
	self, err := os.Executable()
	broken("find ourselves", err)
	var wait sync.WaitGroup
	work := make(chan int)
	for range 4 {
		wait.Go(func() {
			for n := range work {
				own := fmt.Sprintf("%s/%d", dir, n)
				broken("mkdir", os.MkdirAll(own, 0o755))
				c := exec.Command(self, "caller", label(n))
				c.Dir = own
				broken("start", c.Start())
				// The process has called something when its first file is there.
				for end := time.Now().Add(5 * time.Second); time.Now().Before(end); {
					if _, err := os.Lstat(own + "/first-" + label(n)); err == nil {
						break
					}
				}
				time.Sleep(time.Duration(n%7) * 50 * time.Microsecond)
				_ = c.Process.Kill()
				_ = c.Wait()
			}
		})
	}
	for n := range count {
		work <- n
	}
	close(work)
	wait.Wait()
	made := 0
	for n := range count {
		entries, err := os.ReadDir(fmt.Sprintf("%s/%d", dir, n))
		broken("read", err)
		for _, e := range entries {
			made++
			if _, whose, _ := strings.Cut(e.Name(), "-"); whose != label(n) {
				breach(fmt.Sprintf("%s in the directory of %d", e.Name(), n))
			}
			text, _ := os.ReadFile(fmt.Sprintf("%s/%d/%s", dir, n, e.Name()))
			if s := string(text); s != "" && s != label(n) {
				breach(fmt.Sprintf("%s of %d contains %q", e.Name(), n, s))
			}
		}
	}
	fmt.Printf("%d processes made %d files\n", count, made)
	held("killed callers", unix.ESRCH)
}

// caller makes files whose names and contents are its number until it is killed.
func caller(args []string) {
	write := func(name string) {
		if fd, err := unix.Open(name+"-"+args[0], unix.O_WRONLY|unix.O_CREAT|unix.O_CLOEXEC, 0o600); err == nil {
			_, _ = unix.Write(fd, []byte(args[0]))
			_ = unix.Close(fd)
		}
	}
	write("first")
	for n := 0; ; n++ {
		write("a")
		_ = unix.Rename("a-"+args[0], "b-"+args[0])
		_ = unix.Mkdir("d-"+args[0], 0o755)
		_ = unix.Rmdir("d-" + args[0])
	}
}
