package launcher

import (
	"math"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// shareOfUser is which part of what its user may have a sandbox may: a quarter
// is enough for programs that watch files, and leaves the launchers of other
// sandboxes, which watch for a new .git, what they need.
const shareOfUser = 4

// shared are the limits of a user namespace in /proc/sys/user for what the
// kernel counts by user, and those of the whole machine in /proc/sys/fs. Each
// costs a sandbox a hundredth of its start, so that only those are here without
// which nothing can be watched.
var shared = [...][2]string{
	{"max_inotify_instances", "inotify/max_user_instances"},
	{"max_inotify_watches", "inotify/max_user_watches"},
	{"max_fanotify_groups", "fanotify/max_user_groups"},
}

// limit appends what gives the user namespace limits of its own: otherwise one
// command that takes all inotify instances keeps every other sandbox of its
// user from starting. Where the kernel or a container forbids it, nothing is
// limited.
func (p *program) limit() {
	for _, names := range shared {
		own := "/proc/sys/user/" + names[0]
		most := number(own)
		if most >= unlimited {
			// A user namespace begins without limits of its own: those of the
			// whole machine hold.
			most = number("/proc/sys/fs/" + names[1])
		}
		if most > 0 {
			p.try(func() { p.write(own, strconv.Itoa(max(1, most/shareOfUser))) })
		}
	}
}

// unlimited is what the kernel begins with in a new user namespace.
const unlimited = math.MaxInt32

// number reads a number from a file, without what the Go runtime does for files
// that can be waited for; 0 if there is none.
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

// write appends what writes a text to a file.
func (p *program) write(name, text string) {
	fd := p.get("open", name, unix.SYS_OPENAT, cwdFD, p.text(name), val(unix.O_WRONLY|unix.O_CLOEXEC), val(0))
	p.do("write", name, unix.SYS_WRITE, fd.arg(), p.text(text), val(len(text))).full = true
	p.close(fd)
}

// enterNamespacesOf limits the user namespace of a process, which bwrap has made, from a
// child that enters it: bwrap leaves no process inside that is allowed to. If to is not nil,
// the child captures the network of the process first, and shares its descriptors with the
// launcher for that. It reports whether the child has done all that.
func enterNamespacesOf(pid int, to *redirect) bool {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &processes{init: newProgram(), command: newProgram(), status: -1}
	p := c.init
	open := func(kind string) register {
		name := "/proc/" + strconv.Itoa(pid) + "/ns/" + kind
		return p.get("open", name, unix.SYS_OPENAT, cwdFD, p.text(name), val(unix.O_RDONLY|unix.O_CLOEXEC), val(0))
	}
	enter := func(fd register, kind int) { p.do("enter", "a namespace", unix.SYS_SETNS, fd.arg(), val(kind)) }
	user := open("user")
	if to == nil {
		enter(user, unix.CLONE_NEWUSER)
	} else {
		c.flags = unix.CLONE_FILES
		network := open("net")
		// For a user other than root, bwrap makes a second user namespace inside the
		// one that owns the network.
		owner := p.get("find the owner of", "a network", unix.SYS_IOCTL, network.arg(), val(unix.NS_GET_USERNS))
		enter(owner, unix.CLONE_NEWUSER)
		enter(network, unix.CLONE_NEWNET)
		to.catch(p)
		p.try(func() { enter(user, unix.CLONE_NEWUSER) })
		p.close(network)
		p.close(owner)
	}
	p.close(user)
	p.limit()
	p.do("end", "", unix.SYS_EXIT_GROUP, val(0))
	child, errno := c.start(false)
	if errno != 0 {
		return false
	}
	status, err := wait(child)
	return err == nil && status == 0
}
