//go:build linux

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

// limitNamespaceOf limits the user namespace of a process, which bwrap has
// made, from a child that enters it: bwrap leaves no process inside that is allowed to.
func limitNamespaceOf(pid int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := &processes{init: &program{}, command: &program{}, status: -1}
	name := "/proc/" + strconv.Itoa(pid) + "/ns/user"
	fd := c.init.get("open", name, unix.SYS_OPENAT, cwdFD, c.init.text(name), val(unix.O_RDONLY|unix.O_CLOEXEC), val(0))
	c.init.do("enter", name, unix.SYS_SETNS, fd.arg(), val(unix.CLONE_NEWUSER))
	c.init.limit()
	c.init.do("end", "", unix.SYS_EXIT_GROUP, val(0))
	if child, errno := c.start(false); errno == 0 {
		_, _ = wait(child)
	}
}
