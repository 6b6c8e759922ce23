package runner

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"os"
	"slices"
	"strconv"
	"time"

	"codex.internal/pkg/host/peercred"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

const (
	// tick is the unit of statStarted: 100 in a second on all architectures that this program
	// is built for.
	tick = time.Second / 100
	// startSlack is how much later than a file its creator may seem to have started: both
	// times are rounded to a tick of the kernel. It takes longer until the kernel reuses a
	// pid, because it goes through all other pids first.
	startSlack = 30 * time.Millisecond
)

// DialPath connects to a Unix socket at a path as the processes of a command in a sandbox see
// it. members returns their pids in increasing order, as they are at the time of the call. The
// path is resolved within their root, including links in it. A command could make a link to a
// socket of the host that it sees but may not use, such as that of a container daemon, and
// make this program's user connect there on its behalf. Therefore one of the processes must be
// the listener. The error is ErrNotReady if the command does not run yet.
func DialPath(ctx context.Context, members func() []int, path string) (net.Conn, error) {
	pids := members()
	for _, pid := range pids[:min(len(pids), maxSearched)] {
		d, err := openProcess(pid, 0)
		if err != nil {
			continue // it has ended
		}
		var socket *os.File
		if err = unix.EACCES; d.isCommand() {
			if socket, err = d.openSocket(path); err == nil {
				err = d.mayListen(socket, members)
			}
		}
		_ = d.Close()
		switch {
		case errors.Is(err, unix.EACCES) && socket == nil:
			continue // it may not be inspected, like the launcher
		case err != nil:
			if socket != nil {
				_ = socket.Close()
			}
			return nil, err
		}
		defer socket.Close()
		return dialOwn(ctx, members, socket)
	}
	return nil, ErrNotReady
}

// openSocket opens a socket below the root of a process, without connecting to it.
func (d *processDir) openSocket(path string) (*os.File, error) {
	root, err := unix.Openat(int(d.Fd()), "root", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(root)
	fd, err := plan.Openat2(root, path, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS,
	})
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "socket")
	var st unix.Stat_t
	if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT != unix.S_IFSOCK {
		err = unix.ECONNREFUSED // as connect says
	}
	if err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}

// mayListen returns an error if a process outside of the sandbox listens on a socket in this
// program's network: a service that is started by a connection, or that serves one connection and
// ends, must not get any. A process that listens in another network is detected when the connection
// is made.
func (d *processDir) mayListen(socket *os.File, members func() []int) error {
	devices, inode, err := d.tableNames(socket)
	if err != nil {
		return err
	}
	outside, err := peercred.UnixListeners(func(device, number uint32) bool { return number == inode && slices.Contains(devices, device) })
	if err != nil {
		return err
	}
	if len(outside) == 0 {
		return nil
	}
	for _, pid := range members() {
		names, err := os.ReadDir("/proc/" + strconv.Itoa(pid) + "/fd")
		if err != nil {
			continue
		}
		for _, name := range names[:min(len(names), maxProcessFiles)] {
			to, _ := os.Readlink("/proc/" + strconv.Itoa(pid) + "/fd/" + name.Name())
			outside = slices.DeleteFunc(outside, func(socket uint64) bool { return to == fmt.Sprintf("socket:[%d]", socket) })
		}
	}
	if len(outside) > 0 {
		return ErrForeignSocket
	}
	return nil
}

// tableNames returns the names of a socket's file in the kernel's table of sockets: the device of
// its file system, and 32 bits of its inode number. For Btrfs and overlays stat reports a different
// device, but the list of mounts has the right one.
func (d *processDir) tableNames(socket *os.File) (devices []uint32, inode uint32, err error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(socket.Fd()), &st); err != nil {
		return nil, 0, err
	}
	fd := func(f *os.File) string { return strconv.Itoa(int(f.Fd())) }
	info, err := os.ReadFile("/proc/self/fdinfo/" + fd(socket))
	if err != nil {
		return nil, 0, err
	}
	mounts, err := os.ReadFile("/proc/self/fd/" + fd(d.File) + "/mountinfo")
	if err != nil {
		return nil, 0, err
	}
	_, rest, _ := bytes.Cut(info, []byte("mnt_id:\t"))
	id, _, _ := bytes.Cut(rest, []byte("\n"))
	name := func(major, minor uint32) uint32 { return major<<20 | minor }
	devices = []uint32{name(unix.Major(st.Dev), unix.Minor(st.Dev))}
	for line := range bytes.Lines(mounts) {
		var major, minor uint32
		if f := bytes.Fields(line); len(f) > 2 && bytes.Equal(f[0], id) {
			if n, _ := fmt.Sscanf(string(f[2]), "%d:%d", &major, &minor); n == 2 {
				devices = append(devices, name(major, minor))
			}
		}
	}
	return devices, uint32(st.Ino), nil
}

// dialOwn connects to a socket on which one of some processes listens.
func dialOwn(ctx context.Context, members func() []int, socket *os.File) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(socket.Fd())))
	if err != nil {
		return nil, err
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	own := false
	if err == nil {
		err = raw.Control(func(fd uintptr) { own = isListenedOn(int(fd), socket, members) })
	}
	if err == nil && !own {
		err = ErrForeignSocket
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}

// isListenedOn reports whether one of some processes listens at the other end of a connection
// to a socket. The kernel keeps the pid of the process that began to listen, even after that
// has ended, when another process has the socket and a third one the pid: a command could
// start processes until one of them has the pid of an ended daemon. So the process must
// exist, and must still exist after its pid was found among the members.
func isListenedOn(conn int, socket *os.File, members func() []int) bool {
	peer, err := unix.GetsockoptUcred(conn, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil {
		return false
	}
	d, err := openProcess(int(peer.Pid), 0)
	if err != nil {
		return false
	}
	defer d.Close()
	process, err := unix.GetsockoptInt(conn, unix.SOL_SOCKET, unix.SO_PEERPIDFD)
	switch {
	case err == nil:
		defer unix.Close(process)
		if err := unix.PidfdSendSignal(process, 0, nil, 0); err != nil && !errors.Is(err, unix.EPERM) {
			return false // it has ended, so d may refer to another process
		}
	case !errors.Is(err, unix.ENOPROTOOPT) || !d.startedBefore(socket): // ENOPROTOOPT: before Linux 6.5
		return false
	}
	return slices.Contains(members(), d.pid) && d.alive()
}

// startedBefore reports whether the process is older than a file. Scenario: a process made a
// socket and has ended, and another process got its pid: that one is younger than the socket.
// startedBefore returns false if the file system does not store creation times.
func (d *processDir) startedBefore(file *os.File) bool {
	var st unix.Statx_t
	err := unix.Statx(int(file.Fd()), "", unix.AT_EMPTY_PATH, unix.STATX_BTIME, &st)
	if err != nil || st.Mask&unix.STATX_BTIME == 0 {
		return false
	}
	var now, sinceBoot unix.Timespec
	if unix.ClockGettime(unix.CLOCK_REALTIME, &now) != nil || unix.ClockGettime(unix.CLOCK_BOOTTIME, &sinceBoot) != nil {
		return false
	}
	made := time.Unix(st.Btime.Sec, int64(st.Btime.Nsec))
	boot := time.Unix(now.Unix()).Add(-time.Duration(sinceBoot.Nano()))
	started, ok := d.started()
	return ok && !boot.Add(started).After(made.Add(startSlack))
}

// started returns how long after the start of the system the process started.
func (d *processDir) started() (time.Duration, bool) {
	ticks, ok := d.stat(statStarted)
	return time.Duration(ticks) * tick, ok && ticks <= int64(math.MaxInt64/tick)
}
