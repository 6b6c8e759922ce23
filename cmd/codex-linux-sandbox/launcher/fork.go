package launcher

import (
	"math"
	"os"
	"os/signal"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A child of the launcher is started by clone without exec: the first
// process of the sandbox, the init, is a copy of the launcher in which there
// is one thread and no Go runtime. It runs programs, waits, and ends. All of
// its code is in this file and in program.run, marked nosplit: it allocates
// nothing, takes no locks, and calls nothing but the kernel. The same holds for the
// command's process until it executes the command.

// processes is everything that the init and the command need, prepared before the
// fork.
type processes struct {
	flags   uintptr // for clone
	cgroup  int     // see options
	limited bool    // see options
	init    *program
	command *program
	exec    *execution
	subreap bool // end what is left by searching for it: there is no PID namespace

	status   int           // the pipe on which failures are told
	mask     uint64        // the launcher's mask of signals
	signals  uint64        // the set that the init waits for
	info     [128]byte     // siginfo
	report   report        // what is written to status
	listing  [8 << 10]byte // of children, for subreap
	children []byte        // path of that listing
	words    []byte        // the launcher's arguments, which a command could read in /proc/1/cmdline
}

// report is what a child tells before it gives up, or the exit code of the command as
// its step, with stageEnded. Usage is then what all processes of the sandbox have used.
type report struct {
	stage, step, errno int32
	usage              unix.Rusage
}

// The stages of a report.
const (
	stageInit = iota + 1
	stageFork
	stageCommand
	stageExec
	stageEnded
)

// forwarded are the signals that the launcher passes to the command.
var forwarded = []syscall.Signal{
	unix.SIGHUP, unix.SIGINT, unix.SIGQUIT, unix.SIGTERM,
	unix.SIGUSR1, unix.SIGUSR2, unix.SIGWINCH, unix.SIGCONT,
}

// ignored reports whether the launcher was started with a signal ignored, as
// by nohup, and the command is to be as well. What shells have jobs in the
// background ignore, so that a key does not end them, is not meant for us: who
// sends these to the launcher means it.
func ignored(s syscall.Signal) bool {
	return s != unix.SIGINT && s != unix.SIGQUIT && signal.Ignored(s)
}

// orphaned is the signal that the init gets when the launcher is gone.
const orphaned = unix.SIGPWR

func bit(s syscall.Signal) uint64 { return 1 << (uint(s) - 1) }

// start forks the init and returns its process id. The calling goroutine must
// be locked to its thread, whose end is the end of the init. Supervised, the
// launcher ignores the signals that the init gets as well.
func (c *processes) start(supervised bool) (int, syscall.Errno) {
	c.signals = bit(unix.SIGCHLD) | bit(orphaned)
	for _, s := range forwarded {
		c.signals |= bit(s)
	}
	c.children = []byte("/proc/thread-self/children\x00")
	c.words = arguments(os.Args)
	all := ^uint64(0)
	c.command.restoreSignals(&c.mask)
	sigprocmask(&all, &c.mask)
	pid, errno := c.fork()
	sigprocmask(&c.mask, nil)
	if supervised && errno == 0 {
		// Not before the fork: nobody would get a signal that comes in between.
		for _, s := range forwarded {
			ignore(s)
		}
	}
	return pid, errno
}

// arguments returns the memory of a program's arguments after its name, as the
// kernel has laid it out and shows it to others; nil if they lie elsewhere.
func arguments(args []string) []byte {
	if len(args) < 2 {
		return nil
	}
	size := uintptr(0)
	begin := uintptr(unsafe.Pointer(unsafe.StringData(args[0]))) + uintptr(len(args[0])) + 1
	for _, a := range args[1:] {
		if len(a) > 0 && uintptr(unsafe.Pointer(unsafe.StringData(a))) != begin+size {
			return nil
		}
		size += uintptr(len(a)) + 1
	}
	return unsafe.Slice((*byte)(unsafe.Add(unsafe.Pointer(unsafe.StringData(args[0])), len(args[0])+1)), size)
}

// restoreSignals appends what undoes, for the command, that the Go runtime
// handles signals: handled ones get their default, ignored ones stay so, and
// the mask is what it was.
func (p *program) restoreSignals(mask *uint64) {
	initial := pointer(p, &action{})
	for s := syscall.Signal(1); s <= 64; s++ {
		if s != unix.SIGKILL && s != unix.SIGSTOP && !ignored(s) {
			p.do("reset a signal", s.String(), unix.SYS_RT_SIGACTION, val(s), initial, val(0), val(8))
		}
	}
	p.do("restore the signal mask", "", unix.SYS_RT_SIGPROCMASK, val(unix.SIG_SETMASK), pointer(p, mask), val(0), val(8))
}

// ignoring is SIG_IGN, the handler of a signal that is ignored.
const ignoring = 1

// action is the kernel's struct sigaction.
type action struct{ handler, flags, restorer, mask uintptr }

// ignore has the kernel ignore a signal, and returns what it did before. The
// Go runtime, which would start threads for it, does not know.
func ignore(s syscall.Signal) (old action) {
	now := action{handler: ignoring}
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&now)), uintptr(unsafe.Pointer(&old)), 8, 0, 0)
	return old
}

func setAction(s syscall.Signal, a *action) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(a)), 0, 8, 0, 0)
}

func sigprocmask(set, old *uint64) {
	_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGPROCMASK, unix.SIG_SETMASK,
		uintptr(unsafe.Pointer(set)), uintptr(unsafe.Pointer(old)), 8, 0, 0)
}

// clone forks, and returns 0 in the child. The child is in a cgroup unless that is 0. Where the kernel, or a filter of
// system calls, forbids that, the child is in the launcher's own, and if the cgroup
// limits it there is none.
//
//go:nosplit
//go:norace
func clone(flags uintptr, cgroup int, limited bool) (uintptr, syscall.Errno) {
	if cgroup > 0 {
		// struct clone_args; the others are for threads and process numbers.
		args := [11]uint64{0: uint64(flags) | unix.CLONE_INTO_CGROUP, 4: uint64(unix.SIGCHLD), 10: uint64(cgroup)}
		pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if errno == 0 || limited {
			return pid, errno
		}
	}
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// fork makes the init. It returns in the launcher only.
//
//go:nosplit
//go:norace
//go:noinline
func (c *processes) fork() (int, syscall.Errno) {
	pid, errno := clone(c.flags, c.cgroup, c.limited)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	for i := range c.words {
		c.words[i] = 0
	}
	if step, errno := c.init.run(); step >= 0 {
		c.fail(stageInit, step, errno)
	}
	// The init is not suspended until the command is executed, as vfork would suspend it. Scenario: the
	// command is a file on a file system that does not answer, and its execution hangs. The init must still
	// pass on a Ctrl-C, and without a PID namespace it must end the process when the launcher is gone.
	child, errno := clone(0, 0, false)
	if errno != 0 {
		c.fail(stageFork, 0, errno)
	}
	if child == 0 {
		if step, errno := c.command.run(); step >= 0 {
			c.fail(stageCommand, step, errno)
		}
		c.fail(stageExec, 0, c.exec.run())
	}
	c.wait(child)
	return 0, 0
}

// fail tells the launcher and ends this process.
//
//go:nosplit
//go:norace
func (c *processes) fail(stage, step int, errno syscall.Errno) {
	c.report.stage, c.report.step, c.report.errno = int32(stage), int32(step), int32(errno)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.status), uintptr(unsafe.Pointer(&c.report)), unsafe.Sizeof(c.report))
	c.end(exitFailed)
}

// end ends this process, and with it, if it is the init, all in the sandbox.
//
//go:nosplit
//go:norace
func (c *processes) end(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// wait is what the init does: it reaps processes that end, passes signals to the
// command's process group, and ends as the command ends.
//
//go:nosplit
//go:norace
func (c *processes) wait(child uintptr) {
	var status int32
	for {
		sig, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT,
			uintptr(unsafe.Pointer(&c.signals)), uintptr(unsafe.Pointer(&c.info)), 0, 8, 0, 0)
		switch {
		case errno != 0:
			continue
		case sig == uintptr(orphaned):
			c.killAll()
			c.end(exitFailed)
		case sig != uintptr(unix.SIGCHLD):
			// The command may not have made its group yet.
			if _, _, e := syscall.RawSyscall(unix.SYS_KILL, -child, sig, 0); e != 0 {
				_, _, _ = syscall.RawSyscall(unix.SYS_KILL, child, sig, 0)
			}
			continue
		}
		for {
			pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), uintptr(unsafe.Pointer(&status)), unix.WNOHANG, 0, 0, 0)
			if errno == unix.EINTR {
				continue
			}
			if errno != 0 || pid == 0 {
				break
			}
			if pid == child {
				c.killAll()
				code := status >> 8 & 0xff
				if s := status & 0x7f; s != 0 {
					code = 128 + s
				}
				c.tellEnd(code)
				c.end(uintptr(code))
			}
		}
	}
}

// tellEnd tells the launcher the exit code of the command, if no other process is left
// in the PID namespace: from then on nothing of the sandbox runs, and this process holds
// nothing but the pipe. So nobody has to wait until the kernel has freed the namespaces.
// Whatever is left has this process for an ancestor, and the kernel makes it a child of
// this process when its parent ends. If there is any, the end of this process ends it,
// and is what the launcher waits for.
//
//go:nosplit
//go:norace
func (c *processes) tellEnd(code int32) {
	if c.flags&unix.CLONE_NEWPID == 0 {
		return
	}
	for {
		pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, unix.WNOHANG|unix.WALL, 0, 0, 0)
		if errno == unix.ECHILD {
			break
		}
		if errno != 0 && errno != unix.EINTR || errno == 0 && pid == 0 {
			return
		}
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(c.status)+1, math.MaxUint32, 0); errno != 0 {
		return
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, uintptr(c.status)-1, 0); errno != 0 {
		return
	}
	c.report.stage, c.report.step = stageEnded, code
	children := -1 // RUSAGE_CHILDREN; a variable, as the constant does not fit a uintptr
	_, _, _ = syscall.RawSyscall(unix.SYS_GETRUSAGE, uintptr(children), uintptr(unsafe.Pointer(&c.report.usage)), 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.status), uintptr(unsafe.Pointer(&c.report)), unsafe.Sizeof(c.report))
}

// killAll ends every descendant. In a PID namespace the end of the init does
// that; elsewhere orphans become children of the init, which kills its
// children until there are none.
//
//go:nosplit
//go:norace
func (c *processes) killAll() {
	for c.subreap {
		found := false
		fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(cwdFD.value), uintptr(unsafe.Pointer(&c.children[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != 0 {
			return
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&c.listing[0])), uintptr(len(c.listing)))
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		if errno != 0 {
			return
		}
		// The listing is decimal numbers, each with a blank behind it; a
		// number that was cut off has none and is read the next time.
		pid := uintptr(0)
		for i := 0; i < len(c.listing) && uintptr(i) < n; i++ {
			if b := c.listing[i]; b >= '0' && b <= '9' {
				pid = pid*10 + uintptr(b-'0')
				continue
			}
			if pid != 0 {
				found = true
				_, _, _ = syscall.RawSyscall(unix.SYS_KILL, pid, uintptr(unix.SIGKILL), 0)
			}
			pid = 0
		}
		if !found {
			return
		}
		// Wait for one, and reap the others that have ended.
		options := uintptr(0)
		for {
			pid, _, errno := syscall.RawSyscall6(unix.SYS_WAIT4, ^uintptr(0), 0, options, 0, 0, 0)
			if errno == unix.EINTR {
				continue
			}
			if errno != 0 || pid == 0 {
				break
			}
			options = unix.WNOHANG
		}
	}
}
