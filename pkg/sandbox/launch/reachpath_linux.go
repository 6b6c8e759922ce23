package launch

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// DialPath connects to a Unix socket at a path as the processes of a command in a sandbox see
// it; they are given in increasing order. The path is resolved within their root: what a link
// in it says counts as inside. A command could have a link lead to a socket of the host that
// it sees and may not use, such as that of a container daemon, and have this program's user
// connect there in its place. Therefore one of the processes must be the one that listens. The
// error is ErrNotReady if the command does not run yet.
func DialPath(ctx context.Context, pids []int, path string) (net.Conn, error) {
	for _, pid := range pids[:min(len(pids), maxSearched)] {
		d, err := openProcess(pid, 0)
		if err != nil {
			continue // it has ended
		}
		var socket *os.File
		if err = unix.EACCES; d.isCommand() {
			socket, err = d.openSocket(path)
		}
		_ = d.Close()
		switch {
		case errors.Is(err, unix.EACCES) && socket == nil:
			continue // it may not be looked into, as the launcher
		case err != nil:
			return nil, err
		}
		defer socket.Close()
		return dialOwn(ctx, pids, socket)
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
	fd, err := unix.Openat2(root, path, &unix.OpenHow{
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

// dialOwn connects to a socket on which one of some processes listens.
func dialOwn(ctx context.Context, pids []int, socket *os.File) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", "/proc/self/fd/"+strconv.Itoa(int(socket.Fd())))
	if err != nil {
		return nil, err
	}
	raw, err := conn.(*net.UnixConn).SyscallConn()
	var peer *unix.Ucred
	if err == nil {
		controlled := raw.Control(func(fd uintptr) {
			peer, err = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED)
		})
		err = errors.Join(err, controlled)
	}
	if err == nil && !slices.Contains(pids, int(peer.Pid)) {
		err = ErrForeignSocket
	}
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	return conn, nil
}
