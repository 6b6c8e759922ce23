// Package shortage exhausts the resources that a server and its commands share, and checks that the
// server continues.
package shortage

import (
	"bufio"
	"fmt"
	"os"
	"strconv"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"golang.org/x/sys/unix"
)

// These variables make the test's program act as another program: a fork bomb; a program that forks once; and a
// program that reads a line, which contains the limit of processes or is empty, and executes its arguments.
const (
	bombVariable  = "SHORTAGE_BOMB"
	forkVariable  = "SHORTAGE_FORK"
	limitVariable = "SHORTAGE_LIMIT"
)

func TestMain(m *testing.M) {
	switch {
	case os.Getenv(bombVariable) != "":
		bomb()
	case os.Getenv(forkVariable) != "":
		forkOnce()
	case os.Getenv(limitVariable) != "":
		fmt.Fprintln(os.Stderr, limited())
		os.Exit(1)
	}
	harness.SlowMain(m)
}

// limited sets the limit of processes and executes the program's arguments.
func limited() error {
	line, err := bufio.NewReader(os.Stdin).ReadString('\n')
	if err != nil {
		return err
	}
	if n, err := strconv.ParseUint(line[:len(line)-1], 10, 64); err == nil {
		if err := syscall.Setrlimit(unix.RLIMIT_NPROC, &syscall.Rlimit{Cur: n, Max: n}); err != nil {
			return err
		}
	}
	return syscall.Exec(os.Args[1], os.Args[1:], os.Environ())
}
