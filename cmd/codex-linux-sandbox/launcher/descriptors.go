package launcher

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// An inherited descriptor bypasses the view: through /proc/self/fd a command can open a file again, for
// writing, and with the `..` of a directory it reaches everything beside it. So the launcher opens an
// inherited file again inside, at the same path and for reading, if the same file is at that path. Otherwise
// the command does not get the file; if it is one of the first three descriptors, the command gets /dev/null
// instead.
//
// Pipes, connected sockets and the command's terminal stay unchanged. Files that are open for writing stay
// unchanged, too, because the program that started the launcher wants the command to write them. Any other
// device that is open for writing is closed, because it gives access to the machine.

// inheritedFile is an inherited descriptor that the command does not get unchanged.
type inheritedFile struct {
	fd    int
	path  string // the path to open again; "": do not open it
	flags int
	at    int64
	// was is the file that must be at path. If it is nil, any device of that name is accepted.
	was *unix.Stat_t
	// copied is the descriptor of a copy that replaces the file; 0: no copy.
	copied int
}

// memoryDevices maps minor numbers of the devices with major number 1 to their names in the view.
var memoryDevices = map[uint32]string{3: "null", 5: "zero", 7: "full", 8: "random", 9: "urandom"}

// maxCopied bounds the size of a removed file that is copied into memory: shells pass
// here-documents in such files.
const maxCopied = 64 << 20

// standardFiles is the number of the descriptors that every command has.
const standardFiles = 3

// takeInherited sorts the inherited descriptors into l.passed and l.reopened, and sets close-on-exec on
// the latter. It is called only once, because it finds only descriptors without close-on-exec.
func (l *launch) takeInherited() error {
	if l.execFD >= 0 {
		unix.CloseOnExec(l.execFD)
	}
	fds, err := l.descriptors()
	if err != nil {
		return err
	}
	l.inspected = l.sockets()
	for _, fd := range fds {
		f, pass := inspect(fd, l.plan.Network, l.inspected)
		if pass {
			l.preventBind(fd)
			l.passed = append(l.passed, fd)
			l.handed = l.handed || isUnixSocket(fd)
			continue
		}
		unix.CloseOnExec(fd)
		if f.was != nil && f.was.Nlink == 0 && l.mayRead(strings.TrimSuffix(f.path, " (deleted)")) {
			f.copied = copyRemoved(f)
		}
		if fd < standardFiles || f.path != "" {
			l.reopened = append(l.reopened, f)
		}
	}
	return nil
}

// descriptors returns the descriptors that the command would inherit. A launcher that waited for a job received
// three descriptors for the command. All others belong to the launcher, and it sets close-on-exec on them.
func (l *launch) descriptors() ([]int, error) {
	if l.fromJob && unix.CloseRange(standardFiles, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC) == nil {
		return []int{0, 1, 2}, nil
	}
	return inheritedDescriptors()
}

// inheritedDescriptors lists the descriptors that the command would inherit.
func inheritedDescriptors() (fds []int, err error) {
	err = plan.HostView{}.ReadDir("/proc/self/fd", func(name string, _ permissions.FileType) error {
		fd, err := strconv.Atoi(name)
		if err != nil {
			return fmt.Errorf("a descriptor is named %s", name)
		}
		// The kernel closes the launcher's own descriptors at the exec.
		if own, err := unix.FcntlInt(uintptr(fd), unix.F_GETFD, 0); err == nil && own&unix.FD_CLOEXEC == 0 {
			fds = append(fds, fd)
		}
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("list the inherited descriptors: %w", err)
	}
	return fds, nil
}

// dropSockets appends steps that remove inherited sockets with which a command could bypass its
// network policy. It is for a command that shares the launcher's view: the filter forbids creating
// sockets, but not using existing ones. If one of the first three descriptors is such a socket,
// /dev/null replaces it.
func (l *launch) dropSockets(p *initproc.Program) error {
	if l.plan.Network == plan.NetworkOn {
		return nil
	}
	fds, err := inheritedDescriptors()
	if err != nil {
		return err
	}
	for _, fd := range fds {
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return fmt.Errorf("look at the descriptor %d: %w", fd, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFSOCK {
			continue
		}
		if _, pass := inspect(fd, l.plan.Network, l.sockets()); pass {
			l.handed = l.handed || isUnixSocket(fd)
			continue
		}
		if fd >= standardFiles {
			unix.CloseOnExec(fd)
			continue
		}
		null := p.Get("open", os.DevNull, unix.SYS_OPENAT, initproc.CwdFD, p.Text(os.DevNull), initproc.Val(unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY), initproc.Val(0))
		p.Do("replace the descriptor of", "a socket", unix.SYS_DUP3, null.Arg(), initproc.Val(fd), initproc.Val(0))
		p.Close(null)
	}
	return nil
}

// inspect determines how to open a descriptor again. pass is true if the command may inherit it
// unchanged.
func inspect(fd int, network plan.Network, own plan.Sockets) (f inheritedFile, pass bool) {
	f = inheritedFile{fd: fd}
	var st unix.Stat_t
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil || unix.Fstat(fd, &st) != nil {
		return f, false
	}
	name, err := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
	named := err == nil && path.IsAbs(name)
	usable := flags&unix.O_PATH == 0
	access := flags & unix.O_ACCMODE
	written := usable && (access == unix.O_WRONLY || access == unix.O_RDWR)
	f.flags = flags & (unix.O_ACCMODE | unix.O_APPEND | unix.O_NONBLOCK | unix.O_PATH)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFSOCK:
		pass = usable && (network == plan.NetworkOn || hasOnePeer(fd, network, own))
	case unix.S_IFIFO:
		pass = written || usable && !named
	case unix.S_IFCHR:
		if device, memory := memoryDevices[unix.Minor(uint64(st.Rdev))]; memory && unix.Major(uint64(st.Rdev)) == 1 {
			f.path = "/dev/" + device
			return f, false
		}
		pass = usable && isOwnTerminal(fd, uint64(st.Rdev))
	case unix.S_IFREG:
		pass = written && named
	}
	if !pass && named && (access == unix.O_RDONLY || !usable) {
		f.path, f.was = name, &st
		f.at, _ = unix.Seek(fd, 0, io.SeekCurrent)
	}
	return f, pass
}

// Major numbers of the ends of pseudoterminals that programs use as terminals.
const firstTerminal, lastTerminal = 136, 143

// isOwnTerminal reports whether a descriptor refers to the command's terminal: the controlling terminal of the launcher's
// session, or a pseudoterminal that is one of the first three descriptors. If a program starts another one on a pseudoterminal,
// it may not have made that the controlling terminal.
func isOwnTerminal(fd int, device uint64) bool {
	if _, err := unix.IoctlGetTermios(fd, unix.TCGETS); err != nil {
		return false
	}
	if _, err := unix.IoctlGetInt(fd, unix.TIOCGPTN); err == nil {
		return false // this is the other end: data that is written there appears as typed input
	}
	session, err := unix.IoctlGetInt(fd, unix.TIOCGSID)
	if own, err2 := unix.Getsid(0); err == nil && err2 == nil && session == own {
		return true
	}
	for standard := range standardFiles {
		var st unix.Stat_t
		if unix.Fstat(standard, &st) == nil && uint64(st.Rdev) == device && unix.Major(device) >= firstTerminal && unix.Major(device) <= lastTerminal {
			return true
		}
	}
	return false
}

// terminalFile is the path of a terminal and its identity. The zero value is no terminal.
type terminalFile struct {
	path string
	id   plan.FileID
}

// terminalFile returns the file of the first terminal that the command gets as a standard descriptor, if it has a path here. In a
// container it may only have that of the console.
func (l *launch) terminalFile() terminalFile {
	for _, fd := range l.passed {
		var own unix.Stat_t
		if fd >= standardFiles || unix.Fstat(fd, &own) != nil || own.Mode&unix.S_IFMT != unix.S_IFCHR {
			continue
		}
		name, _ := os.Readlink("/proc/self/fd/" + strconv.Itoa(fd))
		for _, name := range []string{name, console} {
			var st unix.Stat_t
			if path.IsAbs(name) && unix.Lstat(name, &st) == nil && st.Dev == own.Dev && st.Ino == own.Ino && st.Rdev == own.Rdev {
				return terminalFile{name, plan.FileID{Dev: uint64(st.Dev), Ino: st.Ino}}
			}
		}
	}
	return terminalFile{}
}

// isUnixSocket reports whether a descriptor is a Unix socket. Sockets of other families cannot pass descriptors.
func isUnixSocket(fd int) bool {
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && family == unix.AF_UNIX
}

// hasOnePeer reports whether a socket can reach only its connected peer. A socket belongs to the
// network in which it was created. A datagram socket can send to any address there, even when it is
// connected. If connect is permitted, an Internet socket can be connected to another peer.
func hasOnePeer(fd int, network plan.Network, own plan.Sockets) bool {
	kind, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_TYPE)
	if err != nil || kind != unix.SOCK_STREAM && kind != unix.SOCK_SEQPACKET {
		return false
	}
	if _, err := unix.Getpeername(fd); err != nil {
		return false
	}
	family, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_DOMAIN)
	return err == nil && (family == unix.AF_UNIX || network == plan.NetworkOff && own < plan.SocketsLoopback)
}

// preventBind prevents a command that may bind sockets from giving an inherited Unix socket a name
// in the host's network, to which the socket belongs. A socket can have only one name, so
// preventBind binds it to a name that the kernel chooses. For descriptors of other kinds the call
// fails.
func (l *launch) preventBind(fd int) {
	if l.sockets() >= plan.SocketsLoopback {
		_ = unix.Bind(fd, &unix.SockaddrUnix{})
	}
}

// mayRead reports whether the profile permits reading a removed file, by the name that the file had.
func (l *launch) mayRead(name string) bool {
	policy := l.plan.Policy
	return policy == nil || strings.HasPrefix(name, "/memfd:") ||
		policy.Access(name) != permissions.Deny && !policy.DeniesRead(name)
}

// copyRemoved copies a removed file, which cannot be opened again, into read-only memory. It
// returns 0 if the copy fails.
func copyRemoved(f inheritedFile) int {
	if f.was.Mode&unix.S_IFMT != unix.S_IFREG || f.flags&unix.O_PATH != 0 || f.was.Size > maxCopied {
		return 0
	}
	memory, err := unix.MemfdCreate("copy", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return 0
	}
	defer unix.Close(memory)
	for offset, left := int64(0), int(f.was.Size); left > 0; {
		n, err := unix.Sendfile(memory, f.fd, &offset, left)
		if err != nil || n == 0 {
			return 0
		}
		left -= n
	}
	const seals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE
	if _, err := unix.FcntlInt(uintptr(memory), unix.F_ADD_SEALS, seals); err != nil {
		return 0
	}
	fd, err := unix.Open("/proc/self/fd/"+strconv.Itoa(memory), unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return 0
	}
	_, _ = unix.Seek(fd, f.at, io.SeekStart)
	return fd
}

// reopen appends steps that open the files again inside.
func reopen(p *initproc.Program, files []inheritedFile) {
	replace := func(f inheritedFile, by initproc.Arg) {
		p.Do("replace the descriptor of", f.path, unix.SYS_DUP3, by, initproc.Val(f.fd), initproc.Val(0))
	}
	for _, f := range files {
		if f.copied > 0 {
			replace(f, initproc.Val(f.copied))
			continue
		}
		if f.fd < standardFiles {
			null := p.Get("open", os.DevNull, unix.SYS_OPENAT, initproc.CwdFD, p.Text(os.DevNull), initproc.Val(unix.O_RDWR|unix.O_CLOEXEC|unix.O_NOCTTY), initproc.Val(0))
			replace(f, null.Arg())
			p.Close(null)
		}
		if f.path == "" {
			continue
		}
		p.Try(func() {
			// Do not wait for a writer if the file is a FIFO.
			how := initproc.Pointer(p, &unix.OpenHow{Flags: uint64(f.flags) | unix.O_CLOEXEC | unix.O_NOCTTY | unix.O_NONBLOCK, Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS})
			fd := p.Get("open", f.path, unix.SYS_OPENAT2, initproc.CwdFD, p.Text(f.path), how, initproc.Val(unix.SizeofOpenHow))
			if f.was != nil {
				p.Identify(f.path, fd, uint64(f.was.Dev), f.was.Ino)
			}
			if f.flags&unix.O_PATH == 0 {
				p.Do("set the flags of", f.path, unix.SYS_FCNTL, fd.Arg(), initproc.Val(unix.F_SETFL), initproc.Val(f.flags))
			}
			if f.at > 0 {
				p.Do("seek in", f.path, unix.SYS_LSEEK, fd.Arg(), initproc.Val(f.at), initproc.Val(unix.SEEK_SET))
			}
			replace(f, fd.Arg())
			p.Close(fd)
		})
	}
}

// maxGiven is above the number of bwrap's last descriptor: bwrap gets one descriptor for each mask.
const maxGiven = 1 << 16

// standard returns the standard descriptors for bwrap, and a list of those that its second stage
// must open again. bwrap, the first process inside, must not have descriptors that the command must
// not have: the command could open them through /proc.
func (l *launch) standard() (files [standardFiles]uintptr, again []byte, err error) {
	for fd := range files {
		files[fd] = uintptr(fd)
	}
	for _, f := range l.reopened {
		if f.fd >= standardFiles {
			continue
		}
		if files[f.fd] = uintptr(f.copied); f.copied > 0 {
			continue
		}
		null, err := unix.Open(os.DevNull, unix.O_RDWR|unix.O_CLOEXEC, 0)
		if err != nil {
			return files, nil, fmt.Errorf("open %s: %w", os.DevNull, err)
		}
		files[f.fd] = uintptr(null)
		was := unix.Stat_t{}
		if f.was != nil {
			was = *f.was
		}
		again = fmt.Appendf(again, "%d %d %d %d %d %s\x00", f.fd, f.flags, f.at, was.Dev, was.Ino, f.path)
	}
	return files, again, nil
}

// standardAgain decodes the list that standard encoded.
func standardAgain() (files []inheritedFile, err error) {
	text, err := inherited("list of descriptors", inheritedFD, maxProfile)
	for line := range strings.SplitSeq(string(text), "\x00") {
		var f inheritedFile
		var was unix.Stat_t
		head, name, named := strings.Cut(line, "/")
		if n, _ := fmt.Sscanf(head, "%d %d %d %d %d", &f.fd, &f.flags, &f.at, &was.Dev, &was.Ino); n != 5 {
			continue
		}
		if named {
			f.path = "/" + name
		}
		if was.Ino != 0 {
			f.was = &was
		}
		files = append(files, f)
	}
	return files, err
}

// inherited reads the content of a descriptor from its beginning.
func inherited(what string, fd, limit int) ([]byte, error) {
	defer unix.Close(fd)
	_, _ = unix.Seek(fd, 0, io.SeekStart) // a pipe has no beginning, so an error is ignored
	text := make([]byte, 0, usualText)
	for len(text) <= limit {
		text = slices.Grow(text, 1)
		n, err := unix.Read(fd, text[len(text):cap(text)])
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.EAGAIN): // the pipe does not block
			_, _ = unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, -1)
		case err != nil:
			return nil, fmt.Errorf("read the %s: %w", what, err)
		case n == 0:
			return text, nil
		default:
			text = text[:len(text)+n]
		}
	}
	return nil, fmt.Errorf("the %s is longer than %d bytes", what, limit)
}
