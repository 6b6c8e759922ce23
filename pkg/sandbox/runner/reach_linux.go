package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSearched bounds the processes of a sandbox among which one with its own network is
	// searched. It is one of the first three: the launcher's init, or the process that bwrap
	// starts.
	maxSearched = 64
	// maxChildren bounds the part that is read of a list of children, in bytes.
	maxChildren = 4 << 10
	// maxStat bounds the part that is read of a process's state: a name and numbers.
	maxStat = 4 << 10
)

// OpenNetwork returns a descriptor of the network of a sandbox whose launcher has the given pid.
// The caller must make sure that the pid is not reused meanwhile. Processes below the launcher are
// accessed through open directories of /proc, because the pid of a process that ends may be reused
// at any time. If there is no such network, the error is ErrNoNetwork or ErrNotReady.
func OpenNetwork(pid int) (*os.File, error) {
	var ours unix.Stat_t
	if err := unix.Stat("/proc/self/ns/net", &ours); err != nil {
		return nil, fmt.Errorf("look at the server's network: %w", err)
	}
	root, err := openProcess(pid, 0)
	if err != nil {
		return nil, err
	}
	queue, ready := []*processDir{root}, root.isCommand()
	defer func() {
		for _, d := range queue {
			_ = d.Close()
		}
	}()
	for i := 0; i < len(queue) && i < maxSearched; i++ {
		for _, pid := range queue[i].children() {
			child, err := openProcess(pid, queue[i].pid)
			if err != nil {
				continue // it has ended
			}
			if !queue[i].alive() {
				_ = child.Close() // its parent may be another process of that pid
				break
			}
			queue = append(queue, child)
			if f := child.network(&ours); f != nil {
				return f, nil
			}
			ready = ready || child.isCommand()
		}
	}
	if ready {
		return nil, ErrNoNetwork
	}
	return nil, ErrNotReady
}

// processDir is a directory of /proc. It refers to its process alone, even after the process has
// ended.
type processDir struct {
	*os.File
	pid int
}

// openProcess opens the directory of a process. If parent is not 0, the process must have this
// parent.
func openProcess(pid, parent int) (*processDir, error) {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid), unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	d := &processDir{os.NewFile(uintptr(fd), "process"), pid}
	if parent != 0 && d.parent() != parent {
		_ = d.Close()
		return nil, unix.ESRCH
	}
	return d, nil
}

// read reads a file of the directory up to a limit.
func (d *processDir) read(name string, limit int) []byte {
	fd, err := unix.Openat(int(d.Fd()), name, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	defer unix.Close(fd)
	b := make([]byte, limit)
	n, err := unix.Read(fd, b)
	if err != nil {
		return nil
	}
	return b[:n]
}

// The places of fields in /proc/PID/stat, counted from the state.
const (
	statParent  = 1
	statStarted = 19 // in ticks after the start of the system
)

// stat returns the number in a field of the process's state; false: the process has ended.
func (d *processDir) stat(field int) (int64, bool) {
	stat := d.read("stat", maxStat)
	// The name before the state may contain any characters.
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= field {
		return 0, false
	}
	n, err := strconv.ParseInt(string(fields[field]), 10, 64)
	return n, err == nil
}

// parent returns the pid of the parent; 0: the process has ended.
func (d *processDir) parent() int {
	n, _ := d.stat(statParent)
	return int(n)
}

func (d *processDir) alive() bool { return len(d.read("stat", maxStat)) > 0 }

// children returns the pids of the children. A list that is longer than is read loses its
// end.
func (d *processDir) children() (pids []int) {
	threads, err := os.ReadDir("/proc/" + strconv.Itoa(d.pid) + "/task")
	if err != nil {
		return nil
	}
	for _, t := range threads[:min(len(threads), maxSearched)] {
		list := d.read(filepath.Join("task", t.Name(), "children"), maxChildren)
		for _, word := range bytes.Fields(list[:bytes.LastIndexByte(list, ' ')+1]) {
			if pid, err := strconv.Atoi(string(word)); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

// network returns a descriptor of the process's network if it differs from ours. nil: it
// is ours, or may not be inspected, like that of the launcher's init.
func (d *processDir) network(ours *unix.Stat_t) *os.File {
	fd, err := unix.Openat(int(d.Fd()), "ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil || st.Dev == ours.Dev && st.Ino == ours.Ino {
		_ = unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), "network")
}

// isCommand reports whether the process runs a program other than the launcher and its
// parts. The server starts the launcher that it found at its own start, whose file an
// upgrade may have removed since.
func (d *processDir) isCommand() bool {
	path := make([]byte, unix.PathMax)
	n, err := unix.Readlinkat(int(d.Fd()), "exe", path)
	if err != nil {
		return false
	}
	self, _ := os.Executable()
	name := strings.TrimSuffix(filepath.Base(string(path[:n])), " (deleted)")
	return name != launcherName && name != "bwrap" && name != filepath.Base(self)
}

// DialInside connects to the first of some addresses in a network that OpenNetwork has
// returned. The launcher makes the sockets: no thread of this process enters the network.
func (r *Runtime) DialInside(ctx context.Context, network *os.File, to []netip.AddrPort) (net.Conn, error) {
	sockets, err := r.socketsInside(ctx, network)
	if err != nil {
		return nil, fmt.Errorf("make a socket in the sandbox: %w", err)
	}
	defer func() {
		for _, fd := range sockets {
			_ = unix.Close(fd)
		}
	}()
	err = unix.EAFNOSUPPORT
	for _, at := range to {
		family := 0
		if at.Addr().Is6() {
			family = 1
		}
		if family >= len(sockets) || sockets[family] < 0 {
			continue
		}
		fd := sockets[family]
		sockets[family] = -1
		var conn net.Conn
		if conn, err = connectSocket(ctx, fd, at); err == nil {
			return conn, nil
		}
	}
	return nil, err
}

// socketsInside has the launcher make sockets in a network: TCP over IPv4, and IPv6 where
// the network has it.
func (r *Runtime) socketsInside(ctx context.Context, network *os.File) ([]int, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(pair[0])
	theirs := os.NewFile(uintptr(pair[1]), "sockets")
	defer theirs.Close()
	cmd := exec.CommandContext(ctx, firstFile, "--self-fd", "3", "--reach-fd", "4", "--sockets-fd", "5")
	cmd.Args[0], cmd.Env, cmd.Dir, cmd.ExtraFiles = launcherName, r.env, "/", []*os.File{r.launcher, network, theirs}
	var said limitedText
	cmd.Stderr = &said
	if _, err := r.opts.Output(cmd); err != nil {
		if len(said.text) > 0 {
			return nil, errors.New(string(bytes.TrimSpace(said.text)))
		}
		return nil, err
	}
	oob := make([]byte, unix.CmsgSpace(4*2))
	_, n, _, _, err := unix.Recvmsg(pair[0], make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
	if err != nil {
		return nil, fmt.Errorf("the launcher sent no sockets: %w", err)
	}
	messages, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil || len(messages) != 1 {
		return nil, errors.New("the launcher sent no sockets")
	}
	return unix.ParseUnixRights(&messages[0])
}

// limitedText keeps the beginning of the data written to it.
type limitedText struct{ text []byte }

func (l *limitedText) Write(b []byte) (int, error) {
	l.text = append(l.text, b[:min(len(b), maxRefusal-len(l.text))]...)
	return len(b), nil
}

// connectSocket connects a non-blocking socket, and takes it over.
func connectSocket(ctx context.Context, fd int, to netip.AddrPort) (net.Conn, error) {
	var address unix.Sockaddr = &unix.SockaddrInet4{Port: int(to.Port())}
	if to.Addr().Is4() {
		address.(*unix.SockaddrInet4).Addr = to.Addr().As4()
	} else {
		address = &unix.SockaddrInet6{Port: int(to.Port()), Addr: to.Addr().As16()}
	}
	err := unix.Connect(fd, address)
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close()
	if err != nil && err != unix.EINPROGRESS && err != unix.EINTR {
		return nil, err
	}
	defer context.AfterFunc(ctx, func() { _ = f.SetWriteDeadline(time.Unix(1, 0)) })()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	var failed error
	err = raw.Write(func(fd uintptr) bool {
		code, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_ERROR)
		if err == nil && code != 0 {
			err = unix.Errno(code)
		}
		if failed = err; failed != nil {
			return true
		}
		_, err = unix.Getpeername(int(fd))
		return err == nil
	})
	if err = errors.Join(err, failed); err != nil {
		return nil, err
	}
	return net.FileConn(f)
}
