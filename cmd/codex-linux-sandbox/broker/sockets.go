package broker

import (
	"bytes"
	"encoding/binary"
	"errors"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"codex.internal/cmd/codex-linux-sandbox/notify"
	"golang.org/x/sys/unix"
)

// The command's Unix sockets. Docker's filter does not let the broker take a socket from the command, so it makes them, and keeps a copy of
// each until it is bound or connected. It finds the copy by the inode of the socket, which the copy keeps from being used again.
//
// With the network off the command connects only to sockets of the sandbox. The broker has bound these, so it knows the inodes of their
// names. It holds each, so that the number is not used again.

// sockets are the Unix sockets of a sandbox.
type sockets struct {
	mu   sync.Mutex
	made []made
	own  map[inode]int // the names of bound sockets, held

	// names is locked for writing while a socket gets its name and the broker looks which inode that is, and for reading while
	// a name is given to an existing file. Otherwise the command could put a socket of the host there in between.
	names sync.RWMutex
	// directory is locked while the working directory of the process is that of a bind.
	directory sync.Mutex
}

// made is a socket that is neither bound nor connected.
type made struct {
	ino uint64
	fd  int
}

type inode struct{ dev, ino uint64 }

// maxAddress is the size of struct sockaddr_storage, and pathOffset where the path in struct sockaddr_un begins.
const maxAddress, pathOffset = 128, 2

func (k *caller) socket() reply {
	kind := k.int(1)
	fd, err := unix.Socket(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, k.int(2))
	if err != nil {
		return failed(err)
	}
	var st unix.Stat_t
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err == nil {
		err = unix.Fstat(own, &st)
	}
	if err != nil {
		drop(own)
		drop(fd)
		return failed(err)
	}
	s := &k.sockets
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.made) >= maxSockets {
		drop(s.made[0].fd)
		s.made = s.made[1:]
	}
	s.made = append(s.made, made{st.Ino, own})
	return reply{file: &fd, flags: kind & unix.SOCK_CLOEXEC}
}

// takeSocket returns a copy of the caller's socket, which argument 0 names. forget makes the broker drop its own copy.
func (k *caller) takeSocket() (fd int, forget func(), err error) {
	name, err := os.Readlink(k.proc("/fd/" + strconv.Itoa(k.int(0))))
	if err != nil {
		return -1, nil, unix.EBADF
	}
	text, found := strings.CutPrefix(name, "socket:[")
	ino, err := strconv.ParseUint(strings.TrimSuffix(text, "]"), 10, 64)
	if !found || err != nil {
		return -1, nil, unix.ENOTSOCK
	}
	s := &k.sockets
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, m := range s.made {
		if m.ino == ino {
			fd, err := unix.FcntlInt(uintptr(m.fd), unix.F_DUPFD_CLOEXEC, 0)
			return fd, func() { s.forget(ino) }, err
		}
	}
	return -1, nil, unix.EPERM
}

func (s *sockets) forget(ino uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, m := range s.made {
		if m.ino == ino {
			drop(m.fd)
			s.made = append(s.made[:i], s.made[i+1:]...)
			return
		}
	}
}

// address copies the address of a Unix socket, which is argument 1. other means that it is not one with a path.
func (k *caller) address() (name string, other bool, err error) {
	size := k.int(2)
	if size < 0 || size > maxAddress {
		return "", false, unix.EINVAL
	}
	b := make([]byte, size)
	if err := notify.ReadMemory(int(k.TID), k.Args[1], b); err != nil {
		return "", false, err
	}
	if len(b) <= pathOffset || binary.NativeEndian.Uint16(b) != unix.AF_UNIX || b[pathOffset] == 0 {
		return "", true, nil
	}
	path, _, _ := bytes.Cut(b[pathOffset:], []byte{0})
	return string(path), false, nil
}

// bind binds a socket to a path. Landlock refuses a path that is put into the memory of another address meanwhile.
func (k *caller) bind() reply {
	name, other, err := k.address()
	switch {
	case err != nil:
		return failed(err)
	case other && k.offline:
		return failed(unix.EPERM)
	case other:
		return goesOn
	}
	n, r := k.parentOf(unix.AT_FDCWD, name)
	switch {
	case n == nil && r.goOn: // not continued: the address may have become an abstract one
		return failed(unix.EACCES)
	case n == nil:
		return r
	}
	defer drop(n.dir)
	socket, forget, err := k.takeSocket()
	if err != nil {
		return failed(err)
	}
	defer drop(socket)
	mask, err := k.mask()
	if err != nil {
		return failed(err)
	}
	var st unix.Stat_t
	if err := unix.Fstat(socket, &st); err != nil {
		return failed(err)
	}
	s := &k.sockets
	s.names.Lock()
	defer s.names.Unlock()
	if may, err := k.mayName(n); err != nil {
		return failed(err)
	} else if !may {
		return failed(unix.EACCES)
	}
	if err := s.room(); err != nil {
		return failed(err)
	}
	// The file gets the mode of the socket.
	if err := unix.Fchmod(socket, st.Mode&0o7777&^mask); err != nil {
		return failed(err)
	}
	if err := s.bindAt(socket, n); err != nil {
		_ = unix.Fchmod(socket, st.Mode&0o7777)
		return failed(err)
	}
	forget()
	file, err := unix.Openat(n.dir, n.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err == nil {
		err = unix.Fstat(file, &st)
	}
	bound, err2 := boundTo(socket)
	if err != nil || err2 != nil || st.Mode&unix.S_IFMT != unix.S_IFSOCK || uint32(st.Ino) != bound {
		drop(file)
		return reply{} // another process has removed or replaced it
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.own[inode{uint64(st.Dev), st.Ino}] = file
	return reply{}
}

// bindAt binds a socket to the bare name in a held directory.
func (s *sockets) bindAt(socket int, n *named) error {
	s.directory.Lock()
	defer s.directory.Unlock()
	if err := unix.Fchdir(n.dir); err != nil {
		return err
	}
	defer func() { _ = unix.Chdir("/") }()
	name := n.name
	if strings.HasPrefix(name, "@") {
		name = "./" + name // package unix takes @ for an abstract name
	}
	return unix.Bind(socket, &unix.SockaddrUnix{Name: name})
}

// room forgets names that are gone, if there are many, and returns an error if there is no room for another.
func (s *sockets) room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.own) < maxBound {
		return nil
	}
	forgetGone(s.own)
	if len(s.own) >= maxBound {
		return unix.ENOBUFS
	}
	return nil
}

// connect connects a socket to one of the sandbox. If the network is on, the kernel connects it to any.
func (k *caller) connect() reply {
	if !k.offline {
		// With a copy here, the other end would not see that the command closes the connection.
		if socket, forget, err := k.takeSocket(); err == nil {
			drop(socket)
			forget()
		}
		return goesOn
	}
	name, other, err := k.address()
	if err == nil && other {
		err = unix.EPERM
	}
	if err != nil {
		return failed(err)
	}
	file, err := k.fileAt(unix.AT_FDCWD, name, true)
	if err != nil {
		return failed(err)
	}
	defer drop(file)
	var st unix.Stat_t
	if err := unix.Fstat(file, &st); err != nil {
		return failed(err)
	}
	s := &k.sockets
	s.mu.Lock()
	own, ok := s.own[inode{uint64(st.Dev), st.Ino}]
	if ok {
		// Hold it here, too: another thread may forget it.
		own, err = unix.FcntlInt(uintptr(own), unix.F_DUPFD_CLOEXEC, 0)
	}
	s.mu.Unlock()
	switch {
	case !ok:
		return failed(unix.EPERM)
	case err != nil:
		return failed(err)
	}
	socket, forget, err := k.takeSocket()
	if err != nil {
		drop(own)
		return failed(err)
	}
	return k.later(&waiting{k, func() bool {
		errno, again := connectOnce(socket, held(own))
		if again {
			return false
		}
		if errno == 0 {
			forget()
		}
		k.end(k.Call, reply{errno: errno})
		return true
	}, func() { drop(socket); drop(own) }})
}

// connectOnce connects a socket without waiting. again means that the caller wants to wait until the listener has room.
func connectOnce(socket int, name string) (errno syscall.Errno, again bool) {
	flags, err := unix.FcntlInt(uintptr(socket), unix.F_GETFL, 0)
	if err != nil {
		return errnoOf(err), false
	}
	if flags&unix.O_NONBLOCK == 0 {
		// The socket is not connected yet, so nothing reads from it while it does not block.
		if err := unix.SetNonblock(socket, true); err != nil {
			return errnoOf(err), false
		}
		defer func() { _ = unix.SetNonblock(socket, false) }()
	}
	err = unix.Connect(socket, &unix.SockaddrUnix{Name: name})
	return errnoOf(err), flags&unix.O_NONBLOCK == 0 && errors.Is(err, unix.EAGAIN)
}
