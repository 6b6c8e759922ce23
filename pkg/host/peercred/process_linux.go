package peercred

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// launcherName is the name of the sandbox launcher. launcherComm is the part of the name that the
// kernel stores.
const (
	launcherName = "codex-linux-sandbox"
	launcherComm = "codex-linux-san"
)

const (
	// kthreadd is the id of the kernel thread that starts all others.
	kthreadd = 2
	// flagKernelThread is PF_KTHREAD, which golang.org/x/sys does not have.
	flagKernelThread = 0x200000
)

// process contains values of /proc/PID/status, which every user may read.
type process struct {
	pid, parent int
	name        string
	depth       int // its PID namespaces, from /proc's down to its own
	noNewPrivs  bool
	filtered    bool // by seccomp
	filters     int  // of seccomp; -1: the kernel does not report the number
}

// readProcess reads the status of the process whose directory in /proc is dir.
func readProcess(dir int) (process, error) {
	text, err := readAt(dir, "status")
	if err != nil {
		return process{}, err
	}
	p := process{filters: -1}
	for line := range bytes.Lines(text) {
		key, rest, _ := bytes.Cut(line, []byte(":"))
		value := strings.TrimSpace(string(rest))
		switch string(key) {
		case "Name":
			p.name = value
		case "Pid":
			p.pid, err = strconv.Atoi(value)
		case "PPid":
			p.parent, err = strconv.Atoi(value)
		case "NSpid":
			p.depth = len(strings.Fields(value))
		case "NoNewPrivs":
			p.noNewPrivs = value == "1"
		case "Seccomp":
			p.filtered = value == strconv.Itoa(unix.SECCOMP_MODE_FILTER)
		case "Seccomp_filters":
			p.filters, err = strconv.Atoi(value)
		}
		if err != nil {
			return process{}, fmt.Errorf("parse the status of a process: %w", err)
		}
	}
	if p.pid == 0 || p.depth == 0 {
		return process{}, errors.New("parse the status of a process: Pid or NSpid is missing")
	}
	return p, nil
}

// readAt reads at most maxStatus bytes of a file of a process. It does not use os.File, which takes
// three more system calls: a scan reads many files.
func readAt(dir int, name string) ([]byte, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, usualStatus)
	for len(text) < maxStatus {
		text = slices.Grow(text, usualStatus/2)
		n, err := unix.Read(fd, text[len(text):min(cap(text), maxStatus)])
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil:
			return nil, err
		case n == 0:
			return text, nil
		}
		text = text[:len(text)+n]
	}
	return text, nil
}

// openProcess opens the directory of a process. Files that are read through it
// belong to that process, even if another one gets its id later.
func openProcess(pid int) (dir int, err error) {
	return unix.Open("/proc/"+strconv.Itoa(pid), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// kernelThreads returns the ids of kernel threads. They are the children of kthreadd, if /proc
// shows kthreadd, except for programs. Scenario: the kernel starts a program for the administrator,
// for example when a cgroup becomes empty; that program is then a child of kthreadd. A kernel
// thread never becomes a program, so known kernel threads are not checked again, and each scan
// checks only a few others.
//
// If a thread has ended and a process has got its id since the list was read, one scan omits that
// process. This alone does not admit a confined client, because the scan then finds no holder of
// its socket.
func kernelThreads(known map[int]bool) map[int]bool {
	if !isKernelThread(kthreadd) {
		return nil // in a container, it is some program
	}
	name := strconv.Itoa(kthreadd)
	dir, err := openProcess(kthreadd)
	if err != nil {
		return nil
	}
	defer unix.Close(dir)
	text, err := readAt(dir, "task/"+name+"/children")
	if err != nil {
		return nil // a kernel without CONFIG_PROC_CHILDREN
	}
	threads, unknown := make(map[int]bool), 0
	for field := range bytes.FieldsSeq(text) {
		pid, err := strconv.Atoi(string(field))
		if err != nil {
			continue
		}
		is := known[pid]
		if !is && unknown < maxUnknown {
			unknown++
			is = isKernelThread(pid)
		}
		if is {
			threads[pid] = true
		}
	}
	return threads
}

// isKernelThread reports whether a process is a kernel thread.
func isKernelThread(pid int) bool {
	dir, err := openProcess(pid)
	if err != nil {
		return false
	}
	defer unix.Close(dir)
	stat, err := readAt(dir, "stat")
	return err == nil && isOfKernel(stat)
}

// isOfKernel reports whether a line of /proc/PID/stat has the flag of kernel threads. The name in
// the line is in parentheses, and may contain any characters.
func isOfKernel(stat []byte) bool {
	const flags = 6 // of the fields after the name: state, parent, group, session, terminal, its group, flags
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flags {
		return false
	}
	n, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && n&flagKernelThread != 0
}

// self describes this process. Other processes are compared with it.
type self struct {
	process
	user string // the name of the user namespace
}

func readSelf() (self, error) {
	dir, err := openProcess(os.Getpid())
	if err != nil {
		return self{}, err
	}
	defer unix.Close(dir)
	p, err := readProcess(dir)
	if err != nil {
		return self{}, err
	}
	user, err := readLink(dir, "ns/user")
	return self{process: p, user: user}, err
}

// marked returns the sign of confinement in the status of a process, or "" if
// there is none. A process cannot leave a PID namespace, nor remove no_new_privs
// or a filter, so the descendants of a confined process are marked as well.
func (me *self) marked(p *process) string {
	switch {
	case p.depth > me.depth:
		return "is in its own PID namespace"
	case !p.noNewPrivs || !p.filtered:
		return ""
	case p.filters > me.filters, p.filters < 0 || me.filters < 0:
		return "is confined by no_new_privs and a seccomp filter"
	default:
		return "" // as this process itself is, in a container
	}
}

// confined returns why the process whose directory is dir counts as confined, or
// "" if it does not.
func (me *self) confined(dir int, p *process) (string, error) {
	if why := me.marked(p); why != "" {
		return why, nil
	}
	user, err := readLink(dir, "ns/user")
	switch {
	case err != nil:
		return "", err
	case user != me.user:
		return "is in another user namespace", nil
	case me.launched(dir, p):
		return "belongs to a sandbox", nil
	default:
		return "", nil
	}
}

// launched reports whether a process is a launcher or descends from one: such a
// process may act for a confined one, as the bridge to a proxy does.
func (me *self) launched(dir int, p *process) bool {
	if isLauncher(dir, p) {
		return true
	}
	parent := p.parent
	for range maxAncestors {
		if parent <= 1 || parent == me.pid {
			return false
		}
		dir, err := openProcess(parent)
		if err != nil {
			return false // it has ended meanwhile
		}
		next, err := readProcess(dir)
		is := err == nil && isLauncher(dir, &next)
		_ = unix.Close(dir)
		if is || err != nil {
			return is
		}
		parent = next.parent
	}
	return true
}

func isLauncher(dir int, p *process) bool {
	if p.name == launcherComm {
		return true
	}
	line, err := readAt(dir, "cmdline")
	name, _, _ := bytes.Cut(line, []byte{0})
	return err == nil && path.Base(string(name)) == launcherName
}

func readLink(dir int, name string) (string, error) {
	var b [64]byte
	n, err := unix.Readlinkat(dir, name, b[:])
	if err != nil {
		return "", err
	}
	return string(b[:n]), nil
}
