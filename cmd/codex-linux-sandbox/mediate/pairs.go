package mediate

import (
	"encoding/binary"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// A datagram socket, even one end of a pair, can send to any datagram socket with a path: sendmsg
// reads the address from memory, where the filter cannot see it. So a command gets no Unix datagram
// socket. If it asks for a pair of them, the launcher creates a pair of packet sockets
// (SOCK_SEQPACKET) instead. These also preserve message boundaries, and the kernel ignores the
// address for them (TestDatagramsOfAPair, TestUnixSockets).

// kindMask is SOCK_TYPE_MASK of the kernel: the kind of a socket without its flags.
const kindMask = 0xf

// pair answers a socketpair call for datagrams. The calling process gets the descriptors of both
// ends, and pair writes their numbers to its memory.
func (c *Connector) pair(n *notification) syscall.Errno {
	kind, at := int(uint32(n.Args[1])), int64(n.Args[3])
	memory, err := unix.Open("/proc/"+strconv.Itoa(int(n.TID))+"/mem", unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(memory)
	// The thread still waits, so this is the memory of its process, and not of another process that
	// has its id now.
	if err := c.listener.Valid(n.Call); err != nil {
		return errnoOf(err)
	}
	ends, err := unix.Socketpair(unix.AF_UNIX, kind&^kindMask|unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, int(int32(n.Args[2])))
	if err != nil {
		return errnoOf(err)
	}
	defer unix.Close(ends[0])
	defer unix.Close(ends[1])
	// Descriptors cannot be withdrawn once given, so first check whether their numbers can be written.
	numbers := make([]byte, 8)
	if _, err := unix.Pwrite(memory, numbers, at); err != nil {
		return unix.EFAULT
	}
	for i, end := range ends {
		number, errno := c.listener.Give(n.Call, end, kind&unix.SOCK_CLOEXEC)
		if errno != 0 {
			return errno
		}
		binary.NativeEndian.PutUint32(numbers[4*i:], uint32(number))
	}
	if written, err := unix.Pwrite(memory, numbers, at); err != nil || written != len(numbers) {
		return unix.EFAULT
	}
	return 0
}
