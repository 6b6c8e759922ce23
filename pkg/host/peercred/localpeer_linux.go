package peercred

import (
	"errors"
	"net"
	"net/netip"
	"os"

	"golang.org/x/sys/unix"
)

// IdentifyTCP is Identify for a TCP connection that is given by its addresses.
func IdentifyTCP(local, remote netip.AddrPort) (uid int, err error) {
	s, err := findTCP(plain(remote), plain(local))
	if err != nil {
		return 0, refuse("%v", err)
	}
	if s.carried {
		return 0, refuse("%v", errCarried)
	}
	uid = int(s.uid)
	switch own := os.Geteuid(); {
	case uid == 0 && own != 0:
		// A sandbox of this user has no sockets that belong to root, and root's processes cannot be
		// inspected.
		return uid, nil
	case uid != own:
		return 0, refuse("its socket belongs to user %d, and this server runs as user %d", uid, own)
	}
	seen := shared.find(s.inode)
	switch {
	case seen.err != nil:
		return 0, refuse("find the process that holds its socket: %v", seen.err)
	case seen.confined != "":
		return 0, refuse("%s", seen.confined)
	case !seen.held:
		return 0, refuse("no visible process holds its socket: a server that does not run as root cannot inspect sshd, for example; with ssh -L, forward to a Unix socket (--listen unix:///PATH)")
	}
	return uid, nil
}

func userOfTCP(local, remote netip.AddrPort) (int, error) {
	// Do not read the tables of /proc here. This code runs for every new connection, before the
	// client is authenticated, and must be cheap.
	s, err := diagnoseTCP(remote, local)
	if err == nil && s.carried {
		err = errCarried
	}
	return int(s.uid), err
}

// serverOfTCP looks up the socket that has accepted the connection. If there is none yet, it looks
// up the listening socket: if a listener closes, its waiting connections end too.
func serverOfTCP(local, remote netip.AddrPort) (int, error) {
	s, err := findTCP(remote, local)
	if err != nil {
		listener, failed := findTCP(remote, netip.AddrPort{})
		// The listener may have accepted the connection meanwhile, and another process may listen
		// now.
		if s, err = findTCP(remote, local); err != nil {
			s, err = listener, failed
		}
	}
	return int(s.uid), err
}

// credentials returns the credentials of the process that connected.
func credentials(c *net.UnixConn) (cred *unix.Ucred, pidfd int, inode uint64, err error) {
	raw, err := c.SyscallConn()
	if err != nil {
		return nil, -1, 0, err
	}
	pidfd = -1
	var failed error
	if err := raw.Control(func(fd uintptr) {
		var stat unix.Stat_t
		if cred, failed = unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); failed != nil {
			return
		}
		if failed = unix.Fstat(int(fd), &stat); failed != nil {
			return
		}
		inode = stat.Ino
		// SO_PEERPIDFD needs Linux 6.5. On older kernels only the process id is known.
		if n, err := unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PEERPIDFD); err == nil {
			pidfd = n
			unix.CloseOnExec(n)
		}
	}); err != nil {
		return nil, -1, 0, err
	}
	return cred, pidfd, inode, failed
}

func userOfUnix(c *net.UnixConn) (uid int, err error) {
	if isCarried(c) {
		return 0, errCarried
	}
	cred, pidfd, _, err := credentials(c)
	if err != nil {
		return 0, err
	}
	if pidfd >= 0 {
		_ = unix.Close(pidfd)
	}
	return int(cred.Uid), nil
}

// identifyUnix admits the process that connected. It refuses if that process has ended or is
// confined, or if a confined process holds its socket too.
func identifyUnix(c *net.UnixConn) (uid int, err error) {
	if isCarried(c) {
		return 0, refuse("%v", errCarried)
	}
	cred, pidfd, inode, err := credentials(c)
	if err != nil {
		return 0, refuse("read the credentials of its socket: %v", err)
	}
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	uid = int(cred.Uid)
	switch own := os.Geteuid(); {
	case uid != own && uid != 0:
		return 0, refuse("its socket belongs to user %d, and this server runs as user %d", uid, own)
	case cred.Pid <= 0:
		return 0, refuse("its process is in a PID namespace that this server cannot see")
	}
	if why, err := whyConfined(int(cred.Pid), pidfd); err != nil {
		return 0, refuse("examine process %d, which has connected: %v", cred.Pid, err)
	} else if why != "" {
		return 0, refuse("process %d, which has connected, %s", cred.Pid, why)
	}
	peer, err := peerOfUnix(inode)
	switch {
	case errors.Is(err, errNoSocket):
		return 0, refuse("its socket is closed")
	case err != nil:
		return uid, nil // the kernel lacks unix_diag; the process is known
	}
	seen := shared.find(peer)
	switch {
	case seen.err != nil:
		return 0, refuse("find the processes that hold its socket: %v", seen.err)
	case seen.confined != "":
		return 0, refuse("%s", seen.confined)
	default:
		return uid, nil
	}
}

// whyConfined returns why a process counts as confined, or "" if it does not. If
// pidfd is not -1, it must be a descriptor of the same process.
func whyConfined(pid, pidfd int) (string, error) {
	me, err := readSelf()
	if err != nil {
		return "", err
	}
	dir, err := openProcess(pid)
	if err != nil {
		return "", err
	}
	defer unix.Close(dir)
	p, err := readProcess(dir)
	if err != nil {
		return "", err
	}
	why, err := me.confined(dir, &p)
	if errors.Is(err, unix.EACCES) || errors.Is(err, unix.EPERM) {
		// The process's namespaces cannot be read, but its status could be.
		why, err = "", nil
		if me.launched(dir, &p) {
			why = "belongs to a sandbox"
		}
	}
	if err == nil && pidfd >= 0 {
		err = unix.PidfdSendSignal(pidfd, 0, nil, 0)
		if errors.Is(err, unix.EPERM) {
			err = nil // the process exists and belongs to another user
		}
	}
	return why, err
}
