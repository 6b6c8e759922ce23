package localpeer

import (
	"errors"
	"net"
	"net/netip"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// Supported reports whether TCP peers can be identified on this system.
const Supported = true

// IdentifyTCP is Identify for a TCP connection that is known by its addresses.
func IdentifyTCP(local, remote netip.AddrPort, o Options) (uid int, err error) {
	s, err := findTCP(plain(remote), plain(local))
	if err != nil {
		return 0, refuse("%v", err)
	}
	uid = int(s.uid)
	switch own := os.Geteuid(); {
	case uid == 0 && own != 0:
		// A sandbox of this user has no socket of root's, and the processes
		// of root cannot be looked into.
		return uid, nil
	case uid != own:
		return 0, refuse("it belongs to user %d, this server to user %d", uid, own)
	}
	seen := shared.look(s.inode)
	switch {
	case seen.err != nil:
		return 0, refuse("its process cannot be found: %v", seen.err)
	case seen.confined != "":
		return 0, refuse("%s", seen.confined)
	case seen.held:
		return uid, nil
	}
	if o.LastConfined != nil {
		if last := o.LastConfined(); !last.IsZero() && time.Since(last) < confinedGrace {
			return 0, refuse("no process that has its socket was found, and a sandboxed command has just run, which may have it")
		}
	}
	why, err := unseen(seen.unreadable, uid)
	switch {
	case err != nil:
		return 0, refuse("its process cannot be found: %v", err)
	case why != "":
		return 0, refuse("%s", why)
	}
	// The socket must still be there, with everything that was looked at.
	if again, err := findTCP(plain(remote), plain(local)); err != nil || again != s {
		return 0, refuse("%v", errNoSocket)
	}
	return uid, nil
}

func userOfTCP(local, remote netip.AddrPort) (int, error) {
	// Without the tables: this is asked before anything is known of a peer,
	// and must cost little.
	s, err := diagnoseTCP(remote, local)
	return int(s.uid), err
}

// credentials are those of the process that connected.
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
		// Linux 6.5; before, a process id must do.
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
	cred, pidfd, _, err := credentials(c)
	if err != nil {
		return 0, err
	}
	if pidfd >= 0 {
		_ = unix.Close(pidfd)
	}
	return int(cred.Uid), nil
}

// identifyUnix admits the process that connected, unless it has ended, it is
// confined, or a confined process holds its socket too.
func identifyUnix(c *net.UnixConn) (uid int, err error) {
	cred, pidfd, inode, err := credentials(c)
	if err != nil {
		return 0, refuse("its process is unknown: %v", err)
	}
	if pidfd >= 0 {
		defer unix.Close(pidfd)
	}
	uid = int(cred.Uid)
	switch own := os.Geteuid(); {
	case uid != own && uid != 0:
		return 0, refuse("it belongs to user %d, this server to user %d", uid, own)
	case cred.Pid <= 0:
		return 0, refuse("its process is none that this server can see")
	}
	if why, err := judge(int(cred.Pid), pidfd); err != nil {
		return 0, refuse("process %d, which has connected, cannot be looked at: %v", cred.Pid, err)
	} else if why != "" {
		return 0, refuse("process %d, which has connected, %s", cred.Pid, why)
	}
	peer, err := peerOfUnix(inode)
	switch {
	case errors.Is(err, errNoSocket):
		return 0, refuse("it has closed its socket")
	case err != nil:
		return uid, nil // the kernel lacks unix_diag; the process is known
	}
	seen := shared.look(peer)
	switch {
	case seen.err != nil:
		return 0, refuse("the processes that have its socket cannot be found: %v", seen.err)
	case seen.confined != "":
		return 0, refuse("%s", seen.confined)
	default:
		return uid, nil
	}
}

// judge says why a process counts as confined; "": it does not. The process
// must still be the one that the pidfd is of, if there is one.
func judge(pid, pidfd int) (string, error) {
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
		// Its namespaces cannot be read, but its status was.
		why, err = "", nil
		if me.launched(dir, &p) {
			why = "belongs to a sandbox"
		}
	}
	if err == nil && pidfd >= 0 {
		err = unix.PidfdSendSignal(pidfd, 0, nil, 0)
		if errors.Is(err, unix.EPERM) {
			err = nil // it is there, and another user's
		}
	}
	return why, err
}
