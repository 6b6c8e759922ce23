package initproc

import (
	"errors"
	"fmt"
	"math"
	"os"
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ExitFailed is the exit code of a child that has failed. A Report gives the reason.
const ExitFailed = 125

// Processes contains everything that the init, which is the first process of a sandbox, and the
// process of the command need. It is prepared before the fork.
type Processes struct {
	// The processes to start, and where.
	Flags    uintptr // flags of clone: the namespaces
	Cgroup   int     // descriptor of a cgroup's directory; 0: the launcher's own cgroup
	InCgroup bool    // the init must start in Cgroup or not at all: that cgroup has limits

	// The programs that the processes run.
	Init    *Program // steps of the init, before it starts the command
	Command *Program // steps of the command's process, before it executes the command
	Exec    *Exec    // the command
	Subreap bool     // there is no PID namespace: the init searches for leftover processes and ends them

	// Status is the writing end of a pipe for the Report of a child. If it is negative, there is no pipe.
	Status int

	mask     uint64        // the launcher's signal mask
	signals  uint64        // the set of signals that the init waits for
	info     signalInfo    // the signal that the init has received
	report   Report        // the data that is written to Status
	listing  [8 << 10]byte // list of child processes, for Subreap
	children []byte        // path of the file with that list
	words    []byte        // the launcher's arguments, which the child clears: a command could read them in /proc/1/cmdline
}

// signalInfo is siginfo_t of a signal that a process or the kernel has sent.
type signalInfo struct {
	_, _, code, _ int32
	pid           int32
	_             [108]byte
}

// stopped marks the status of a process that stops for its tracer.
const stopped = 0x7f

// fromKernel is the code of a signal that the kernel has sent: SI_KERNEL.
const fromKernel = 0x80

// Stage is the stage that a child had reached.
type Stage int32

// The stages of a Report.
const (
	StageInit    Stage = iota + 1 // a step of Init has failed
	StageFork                     // the init has not started the process of the command
	StageCommand                  // a step of Command has failed
	StageExec                     // the command could not be executed
	StageEnded                    // the command has ended
)

// Report is written by a child before it gives up. With StageEnded it has the exit code of the
// command in place of the step, and Usage is the usage of all processes of the sandbox.
type Report struct {
	Stage       Stage
	Step, Errno int32
	Usage       unix.Rusage
}

// ReadReport waits for a report from the other end of Status. It returns nil if none has arrived
// and no process is left that could write one.
func ReadReport(fd int) *Report {
	told := &Report{}
	buf := unsafe.Slice((*byte)(unsafe.Pointer(told)), unsafe.Sizeof(*told))
	for {
		n, err := unix.Read(fd, buf)
		switch {
		case errors.Is(err, unix.EINTR):
		case err == nil && n == len(buf):
			return told
		default:
			return nil
		}
	}
}

// Start forks the init and returns its process id. The calling goroutine must be locked to its
// thread: if Init sets a parent-death signal, the init ends with that thread.
func (c *Processes) Start() (int, syscall.Errno) {
	c.signals = Bit(unix.SIGCHLD) | Bit(Orphaned)
	for _, s := range Forwarded {
		c.signals |= Bit(s)
	}
	c.children = []byte("/proc/thread-self/children\x00")
	c.words = arguments(os.Args)
	all := ^uint64(0)
	c.Command.resetSignals(&c.mask)
	sigprocmask(&all, &c.mask)
	pid, errno := c.fork()
	sigprocmask(&c.mask, nil)
	return pid, errno
}

// RunAlone runs a program in a child, and waits for the end of the child. The flags are flags of
// clone. It returns a *Failure if a step fails.
func RunAlone(p *Program, flags uintptr) error {
	var status [2]int
	if err := unix.Pipe2(status[:], unix.O_CLOEXEC); err != nil {
		return fmt.Errorf("make a pipe: %w", err)
	}
	defer unix.Close(status[0])
	c := &Processes{Init: p, Flags: flags, Status: status[1]}
	all := ^uint64(0)
	runtime.LockOSThread() // each thread has its own signal mask
	sigprocmask(&all, &c.mask)
	pid, errno := c.fork()
	sigprocmask(&c.mask, nil)
	runtime.UnlockOSThread()
	if errno != 0 {
		_ = unix.Close(status[1])
		return fmt.Errorf("fork: %w", errno)
	}
	code, err := Wait(pid)
	_ = unix.Close(status[1]) // not before: with CLONE_FILES the child shares this descriptor
	told := ReadReport(status[0])
	switch {
	case told != nil && told.Stage == StageInit:
		return p.Steps[told.Step].Failure(syscall.Errno(told.Errno))
	case err != nil:
		return err
	case code != 0:
		return fmt.Errorf("the child ended with %v", code)
	}
	return nil
}

// Wait waits for the end of a child, and reaps it.
func Wait(pid int) (unix.WaitStatus, error) {
	var status unix.WaitStatus
	for {
		_, err := unix.Wait4(pid, &status, 0, nil)
		if err == nil {
			return status, nil
		}
		if !errors.Is(err, unix.EINTR) {
			return 0, fmt.Errorf("wait for the sandbox: %w", err)
		}
	}
}

// arguments returns the memory of a program's arguments after its name, which the kernel shows to
// other processes. It returns nil if that memory is elsewhere.
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

// All functions below also run in the children, without a Go runtime: see README.md.

// clone forks, and returns 0 in the child. If cgroup is not 0, the child starts in that cgroup. If
// the kernel or a system call filter forbids that, the child starts in the launcher's cgroup; with
// inCgroup, clone returns an error instead.
//
//go:nosplit
//go:norace
func clone(flags uintptr, cgroup int, inCgroup bool) (uintptr, syscall.Errno) {
	if cgroup > 0 {
		// args is struct clone_args. Its other fields are for threads and process numbers.
		args := [11]uint64{0: uint64(flags) | unix.CLONE_INTO_CGROUP, 4: uint64(unix.SIGCHLD), 10: uint64(cgroup)}
		pid, _, errno := syscall.RawSyscall(unix.SYS_CLONE3, uintptr(unsafe.Pointer(&args)), unsafe.Sizeof(args), 0)
		if errno == 0 || inCgroup {
			return pid, errno
		}
	}
	pid, _, errno := syscall.RawSyscall6(unix.SYS_CLONE, flags|uintptr(unix.SIGCHLD), 0, 0, 0, 0, 0)
	return pid, errno
}

// fork starts the init. It returns in the launcher only.
//
//go:nosplit
//go:norace
//go:noinline
func (c *Processes) fork() (int, syscall.Errno) {
	pid, errno := clone(c.Flags, c.Cgroup, c.InCgroup)
	if errno != 0 || pid != 0 {
		return int(pid), errno
	}
	for i := range c.words {
		c.words[i] = 0
	}
	if step, errno := c.Init.run(); step >= 0 {
		c.fail(StageInit, step, errno)
	}
	// The init does not use vfork, because vfork would suspend it until the command is executed. Scenario: the
	// command is a file on a file system that does not answer, and its execution hangs. The init must still
	// forward a Ctrl-C. Without a PID namespace it must also end the process when the launcher has ended.
	child, errno := clone(0, 0, false)
	if errno != 0 {
		c.fail(StageFork, 0, errno)
	}
	if child == 0 {
		if step, errno := c.Command.run(); step >= 0 {
			c.fail(StageCommand, step, errno)
		}
		c.fail(StageExec, 0, c.Exec.Run())
	}
	c.wait(child)
	return 0, 0
}

// fail reports a failure to the launcher and ends this process.
//
//go:nosplit
//go:norace
func (c *Processes) fail(stage Stage, step int, errno syscall.Errno) {
	c.report.Stage, c.report.Step, c.report.Errno = stage, int32(step), int32(errno)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.Status), uintptr(unsafe.Pointer(&c.report)), unsafe.Sizeof(c.report))
	c.end(ExitFailed)
}

// end ends this process. If this process is the init of a PID namespace, all processes in the sandbox end with it.
//
//go:nosplit
//go:norace
func (c *Processes) end(code uintptr) {
	for {
		_, _, _ = syscall.RawSyscall(unix.SYS_EXIT_GROUP, code, 0, 0)
	}
}

// wait is the main loop of the init. It reaps ended processes, passes signals to the command's process group, and ends when
// the command ends.
//
//go:nosplit
//go:norace
func (c *Processes) wait(child uintptr) {
	var status int32
	for {
		sig, _, errno := syscall.RawSyscall6(unix.SYS_RT_SIGTIMEDWAIT,
			uintptr(unsafe.Pointer(&c.signals)), uintptr(unsafe.Pointer(&c.info)), 0, 8, 0, 0)
		switch {
		case errno != 0:
			continue
		case sig == uintptr(Orphaned):
			c.killAll()
			c.end(ExitFailed)
		case sig != uintptr(unix.SIGCHLD):
			if c.passesOn(sig) {
				// The command is in the process group of the init until it makes one of its own, as a shell with job
				// control does. The init gets the signal as well, and ignores it: it did not come from the launcher.
				group, _, _ := syscall.RawSyscall(unix.SYS_GETPGID, child, 0, 0)
				_, _, _ = syscall.RawSyscall(unix.SYS_KILL, -group, sig, 0)
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
			if status&0xff == stopped {
				// The process has asked its parent to trace it, which this process does not.
				sig := uintptr(status >> 8 & 0xff)
				if sig == uintptr(unix.SIGTRAP) {
					sig = 0 // it comes from execve
				}
				_, _, _ = syscall.RawSyscall6(unix.SYS_PTRACE, unix.PTRACE_DETACH, pid, 0, sig, 0, 0)
				continue
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

// passesOn reports whether the init passes on the signal that it has received. It does so with the launcher's signals. The kernel
// sends those of the terminal's keys and of its size to the whole process group, and only the end of the terminal to the init,
// which leads the session. Processes of the sandbox do not signal the command by way of the init.
//
//go:nosplit
//go:norace
func (c *Processes) passesOn(sig uintptr) bool {
	if c.info.code == fromKernel {
		return sig == uintptr(unix.SIGHUP) || sig == uintptr(unix.SIGCONT)
	}
	launcher, _, _ := syscall.RawSyscall(unix.SYS_GETPPID, 0, 0, 0)
	return uintptr(c.info.pid) == launcher // 0 for both, if the launcher is outside of the PID namespace
}

// tellEnd reports the exit code of the command to the launcher if no other process is left in the
// PID namespace. Then only this process is left of the sandbox, with only the pipe open, so the
// launcher need not wait until the kernel has freed the namespaces. Any leftover process descends
// from this process, and the kernel makes it a child of this process when its parent ends. If a
// child is left, tellEnd reports nothing: the end of this process ends the child, and the launcher
// waits for that.
//
//go:nosplit
//go:norace
func (c *Processes) tellEnd(code int32) {
	if c.Flags&unix.CLONE_NEWPID == 0 {
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
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, uintptr(c.Status)+1, math.MaxUint32, 0); errno != 0 {
		return
	}
	if _, _, errno := syscall.RawSyscall(unix.SYS_CLOSE_RANGE, 0, uintptr(c.Status)-1, 0); errno != 0 {
		return
	}
	c.report.Stage, c.report.Step = StageEnded, code
	children := -1 // RUSAGE_CHILDREN is -1; this is a variable because a negative constant does not fit a uintptr
	_, _, _ = syscall.RawSyscall(unix.SYS_GETRUSAGE, uintptr(children), uintptr(unsafe.Pointer(&c.report.Usage)), 0)
	_, _, _ = syscall.RawSyscall(unix.SYS_WRITE, uintptr(c.Status), uintptr(unsafe.Pointer(&c.report)), unsafe.Sizeof(c.report))
}

// killAll ends every descendant. In a PID namespace the kernel does that when the init ends.
// Without one, orphans become children of the init, and killAll kills the init's children until
// none are left.
//
//go:nosplit
//go:norace
func (c *Processes) killAll() {
	for c.Subreap {
		found := false
		fd, _, errno := syscall.RawSyscall6(unix.SYS_OPENAT, uintptr(CwdFD.Value), uintptr(unsafe.Pointer(&c.children[0])), unix.O_RDONLY|unix.O_CLOEXEC, 0, 0, 0)
		if errno != 0 {
			return
		}
		n, _, errno := syscall.RawSyscall(unix.SYS_READ, fd, uintptr(unsafe.Pointer(&c.listing[0])), uintptr(len(c.listing)))
		_, _, _ = syscall.RawSyscall(unix.SYS_CLOSE, fd, 0, 0)
		if errno != 0 {
			return
		}
		// The list contains decimal numbers, each followed by a blank. The last number may be
		// truncated: it has no blank, and is read in the next pass.
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
		// Wait for one child, and reap the others that have ended.
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
