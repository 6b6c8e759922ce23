package launcher

import (
	"math"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/cmd/codex-linux-sandbox/mediate"
	"golang.org/x/sys/unix"
)

// shareOfUser divides the limits of the user: a sandbox gets a quarter. A quarter is enough for programs
// that watch files, and leaves enough for the launchers of other sandboxes, which watch for a new .git.
const shareOfUser = 4

// shared are limits of resources that the kernel counts per user: the name of the limit of a user namespace
// in /proc/sys/user, and of the limit of the whole machine in /proc/sys/fs. Setting a limit takes a hundredth
// of the time of a start, so the list has only the limits that file watches need.
var shared = [...][2]string{
	{"max_inotify_instances", "inotify/max_user_instances"},
	{"max_inotify_watches", "inotify/max_user_watches"},
	{"max_fanotify_groups", "fanotify/max_user_groups"},
}

// limitNamespace appends steps that set limits of the user namespace. Without them, one command
// that takes all inotify instances prevents every other sandbox of its user from starting. If the
// kernel or a container forbids setting them, the namespace has no limits.
func limitNamespace(p *initproc.Program) {
	for _, names := range shared {
		own := "/proc/sys/user/" + names[0]
		most := number(own)
		if most >= unlimited {
			// A new user namespace has no limits of its own: those of the whole machine apply.
			most = number("/proc/sys/fs/" + names[1])
		}
		if most > 0 {
			p.Try(func() { writeFile(p, own, strconv.Itoa(max(1, most/shareOfUser))) })
		}
	}
}

// limitTasks appends a step that limits the user's processes and threads for the command. 0 means
// no limit. The command cannot raise the limit.
func limitTasks(p *initproc.Program, most int) {
	if most > 0 {
		limit := [2]uint64{uint64(most), uint64(most)}
		p.Do("limit the processes to", strconv.Itoa(most), unix.SYS_PRLIMIT64, initproc.Val(0), initproc.Val(unix.RLIMIT_NPROC),
			initproc.Pointer(p, &limit), initproc.Val(0))
	}
}

// lowerTasks lowers the launcher's own limit of tasks, and returns a function that restores it. The process that the
// launcher starts in between creates a user namespace. Since Linux 5.14, the kernel applies the limit of that process
// to all tasks of the user inside. Without this, the tasks could evade the limit by becoming another user there. The
// launcher itself needs threads later, so its own limit is restored.
func lowerTasks(most int) (restore func()) {
	var own unix.Rlimit
	if most <= 0 || unix.Prlimit(0, unix.RLIMIT_NPROC, nil, &own) != nil {
		return func() {}
	}
	low := unix.Rlimit{Cur: min(own.Cur, uint64(most)), Max: own.Max}
	_ = unix.Prlimit(0, unix.RLIMIT_NPROC, &low, nil) // this needs no privilege
	return func() { _ = unix.Prlimit(0, unix.RLIMIT_NPROC, &own, nil) }
}

// unlimited is the value of these limits in a new user namespace.
const unlimited = math.MaxInt32

// number reads a number from a file. It returns 0 if it cannot. os.ReadFile would first try to add the
// file to the runtime's poller.
func number(name string) int {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	buf := make([]byte, 32)
	n, err := unix.Read(fd, buf)
	if err != nil {
		return 0
	}
	n, _ = strconv.Atoi(strings.TrimSpace(string(buf[:n])))
	return n
}

// writeFile appends steps that write a text to a file.
func writeFile(p *initproc.Program, name, text string) {
	fd := p.Get("open", name, unix.SYS_OPENAT, initproc.CwdFD, p.Text(name), initproc.Val(unix.O_WRONLY|unix.O_CLOEXEC), initproc.Val(0))
	p.Do("write", name, unix.SYS_WRITE, fd.Arg(), p.Text(text), initproc.Val(len(text))).Full = true
	p.Close(fd)
}

// enterNamespacesOf limits the user namespace of a process, which bwrap has made. It does so from a
// child that enters the namespace, because bwrap leaves no process inside with the right to do it.
// If to is not nil, the child first captures the network of the process, and shares its descriptors
// with the launcher for that. It reports whether all steps succeeded.
func enterNamespacesOf(pid int, to *mediate.Redirect) bool {
	p, flags := initproc.New(), uintptr(0)
	open := func(kind string) initproc.Register {
		name := "/proc/" + strconv.Itoa(pid) + "/ns/" + kind
		return p.Get("open", name, unix.SYS_OPENAT, initproc.CwdFD, p.Text(name), initproc.Val(unix.O_RDONLY|unix.O_CLOEXEC), initproc.Val(0))
	}
	enter := func(fd initproc.Register, kind int) {
		p.Do("enter", "a namespace", unix.SYS_SETNS, fd.Arg(), initproc.Val(kind))
	}
	user := open("user")
	if to == nil {
		enter(user, unix.CLONE_NEWUSER)
	} else {
		flags = unix.CLONE_FILES
		network := open("net")
		// For an ordinary user, bwrap creates a second user namespace inside the one that owns the
		// network. Enter the owner.
		owner := p.Get("find the owner of", "a network", unix.SYS_IOCTL, network.Arg(), initproc.Val(unix.NS_GET_USERNS))
		enter(owner, unix.CLONE_NEWUSER)
		enter(network, unix.CLONE_NEWNET)
		to.Catch(p)
		p.Try(func() { enter(user, unix.CLONE_NEWUSER) })
		p.Close(network)
		p.Close(owner)
	}
	p.Close(user)
	limitNamespace(p)
	p.Do("end", "", unix.SYS_EXIT_GROUP, initproc.Val(0))
	return initproc.RunAlone(p, flags) == nil
}
