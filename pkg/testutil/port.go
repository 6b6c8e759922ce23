package testutil

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// FreePort chooses from these ports. They need no privilege, and no system assigns them
// automatically (Linux assigns ports from 32768 on, other systems from 49152 on).
const (
	firstFree = 10000
	afterFree = 32768
)

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, for a program that must be
// told its port. The system does not assign this port to a socket that connects or that listens on
// port 0. The alternative, to listen on port 0 and close the port, was rejected: on a busy machine
// another test got the port before the program did.
func FreePort() (int, error) {
	for range 1000 {
		port := firstFree + rand.IntN(afterFree-firstFree)
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if errors.Is(err, syscall.EADDRINUSE) {
			continue
		}
		if err != nil {
			return 0, err
		}
		return port, l.Close()
	}
	return 0, errors.New("testutil: every port that was tried is taken")
}
