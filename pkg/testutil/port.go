package testutil

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"syscall"
)

// The ports that FreePort chooses from: those that need no privilege and that no system gives
// to whoever asks for any (Linux has 32768 and above for that, others 49152).
const (
	firstFree = 10000
	afterFree = 32768
)

// FreePort returns a TCP port of 127.0.0.1 on which nothing listens, for a program that must be
// told its port. The system does not give it to anybody who listens at port 0 or connects, as it
// does with a port that was got in that way and closed: on a busy machine another test had that
// before the program.
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
