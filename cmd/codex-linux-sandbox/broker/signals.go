package broker

import (
	"errors"
	"os"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"golang.org/x/sys/unix"
)

// Before version 6 Landlock does not keep signals inside. Then the filter stops the calls that send one. The broker holds the target by a
// pidfd, checks that it descends from the sandbox's init, and sends the signal through the pidfd. The receiver sees the broker as the
// sender.

func (k *caller) kill() reply {
	pid, signal := k.int(0), unix.Signal(k.int(1))
	own, err := notify.ProcessOf(int(k.TID))
	if err != nil {
		return failed(err)
	}
	if pid == own {
		return goesOn // the arguments are numbers, and this number is taken while the caller waits
	}
	if pid > 0 {
		return failed(k.signal(pid, signal, nil))
	}
	group := -pid
	if pid == 0 {
		if group, err = unix.Getpgid(own); err != nil {
			return failed(err)
		}
	}
	sent, refused := false, error(unix.ESRCH)
	for _, p := range processes() {
		if pid == -1 && p.pid == own || pid != -1 && p.group != group {
			continue
		}
		switch err := k.signal(p.pid, signal, nil); {
		case err == nil:
			sent = true
		case !errors.Is(err, unix.ESRCH):
			refused = err
		}
	}
	if sent {
		return reply{}
	}
	return failed(refused)
}

// tgkill signals a thread of the caller's own process. For another process the signal goes to the process: a thread cannot be held before
// Linux 6.9.
func (k *caller) tgkill(pid, tid int, signal unix.Signal) reply {
	own, err := notify.ProcessOf(int(k.TID))
	switch {
	case err != nil:
		return failed(err)
	case pid == own:
		return goesOn // the kernel checks that the thread is one of this process
	case pid <= 0 || tid <= 0:
		return failed(unix.EINVAL)
	}
	return failed(k.signal(pid, signal, nil))
}

func (k *caller) tkill() reply {
	tid := k.int(0)
	if tid <= 0 {
		return failed(unix.EINVAL)
	}
	pid, err := notify.ProcessOf(tid)
	if err != nil {
		return failed(unix.ESRCH)
	}
	own, err := notify.ProcessOf(int(k.TID))
	if err != nil {
		return failed(err)
	}
	if pid != own {
		return failed(k.signal(pid, unix.Signal(k.int(1)), nil))
	}
	// Not continued: the thread may end, and its number may then be that of a thread outside.
	if err := k.ready(); err != nil {
		return failed(err)
	}
	return failed(unix.Tgkill(own, tid, unix.Signal(k.int(1))))
}

// queue sends a signal with data, which is at an address.
func (k *caller) queue(pid int, signal unix.Signal, address uint64) reply {
	info, err := k.info(address)
	if err != nil {
		return failed(err)
	}
	if pid <= 0 {
		return failed(unix.ESRCH)
	}
	return failed(k.signal(pid, signal, info))
}

// info copies the data of a signal. The kernel does not let a process send data that seems to come from the kernel.
func (k *caller) info(address uint64) (*unix.Siginfo, error) {
	info := &unix.Siginfo{}
	return info, notify.ReadMemory(int(k.TID), address, unsafe.Slice((*byte)(unsafe.Pointer(info)), unsafe.Sizeof(*info)))
}

// pidfdSignal finds the process of a pidfd by its number, which is that of the process as long as it is alive.
func (k *caller) pidfdSignal() reply {
	if k.Args[3] != 0 {
		return failed(unix.EINVAL)
	}
	var info *unix.Siginfo
	if k.Args[2] != 0 {
		var err error
		if info, err = k.info(k.Args[2]); err != nil {
			return failed(err)
		}
	}
	pid, err := k.pidOf(k.int(0))
	if err != nil {
		return failed(err)
	}
	return failed(k.signal(pid, unix.Signal(k.int(1)), info))
}

func (k *caller) pidOf(pidfd int) (int, error) {
	text, err := os.ReadFile(k.proc("/fdinfo/" + strconv.Itoa(pidfd)))
	if err != nil {
		return 0, unix.EBADF
	}
	_, rest, found := strings.Cut(string(text), "\nPid:\t")
	number, _, _ := strings.Cut(rest, "\n")
	pid, err := strconv.Atoi(number)
	switch {
	case !found || err != nil:
		return 0, unix.EBADF
	case pid <= 0:
		return 0, unix.ESRCH
	}
	return pid, nil
}

// signal sends a signal to a process of the sandbox. It returns EPERM for any other process.
func (k *caller) signal(pid int, signal unix.Signal, info *unix.Siginfo) error {
	target, err := unix.PidfdOpen(pid, 0)
	if errors.Is(err, unix.EINVAL) {
		err = unix.ESRCH // a thread
	}
	if err != nil {
		return err
	}
	defer unix.Close(target)
	// If the chain of parents is the same twice, none of these processes has ended in between, so no number was used again. If the target is
	// still alive after that, it is the process that was looked at.
	first := ancestors(pid)
	if len(first) == 0 || first[len(first)-1].pid != k.init || pid == k.init {
		return unix.EPERM
	}
	if !slices.Equal(first, ancestors(pid)) {
		return unix.ESRCH
	}
	if err := unix.PidfdSendSignal(target, 0, nil, 0); err != nil {
		return err
	}
	if err := k.ready(); err != nil {
		return err
	}
	return unix.PidfdSendSignal(target, signal, info, 0)
}

// process is a line of the table of processes.
type process struct {
	pid, parent, group int
	start              string // the time of its start
}

// maxAncestors bounds how many parents of a process are looked up.
const maxAncestors = 1000

// ancestors returns a process and its parents, up to a child of the broker. It returns nil if there is no such child.
func ancestors(pid int) (chain []process) {
	broker := os.Getpid()
	for range maxAncestors {
		p, ok := processAt(pid)
		if !ok || p.pid <= 1 {
			return nil
		}
		chain = append(chain, p)
		if p.parent == broker {
			return chain
		}
		pid = p.parent
	}
	return nil
}

// processAt reads a line of the table of processes.
func processAt(pid int) (process, bool) {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return process{}, false
	}
	// The name of the program, in parentheses, may contain anything.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const parent, group, start = 1, 2, 19
	if len(fields) <= start {
		return process{}, false
	}
	p := process{pid: pid, start: fields[start]}
	var err2 error
	p.parent, err = strconv.Atoi(fields[parent])
	p.group, err2 = strconv.Atoi(fields[group])
	return p, err == nil && err2 == nil
}

// processes lists all processes that can be seen here.
func processes() (all []process) {
	dir, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	for _, e := range dir {
		if pid, err := strconv.Atoi(e.Name()); err == nil {
			if p, ok := processAt(pid); ok {
				all = append(all, p)
			}
		}
	}
	return all
}
