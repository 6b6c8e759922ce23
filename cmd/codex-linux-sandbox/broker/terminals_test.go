package broker_test

import (
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// foreignTerminal is the variable with the path of a terminal outside of the sandbox.
const foreignTerminal = "CODEX_BROKER_TERMINAL"

// makePTY makes a pseudoterminal, and returns the descriptor of its first end and the path of the other.
func makePTY() (fd int, name string, err error) {
	if fd, err = unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0); err != nil {
		return -1, "", err
	}
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	return fd, "/dev/pts/" + strconv.Itoa(number), err
}

// terminalsInside uses pseudoterminals. The errors of what must work begin with "inside".
func terminalsInside(string) map[string]syscall.Errno {
	results := make(map[string]syscall.Errno)
	for _, flags := range []int{unix.O_RDONLY, unix.O_WRONLY, unix.O_RDWR, unix.O_RDWR | unix.O_CREAT} {
		results["open a terminal outside with flags "+strconv.Itoa(flags)] = errno(open(flags | unix.O_NOCTTY)(os.Getenv(foreignTerminal)))
	}
	results["chmod a terminal outside"] = errno(unix.Chmod(os.Getenv(foreignTerminal), 0o666))
	ours, name, err := makePTY()
	results["inside: make"] = errno(err)
	other, err := unix.Open(name, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	results["inside: open"] = errno(err)
	const line = "x\n"
	_, err = unix.Write(ours, []byte(line))
	results["inside: write"] = errno(err)
	b := make([]byte, 10)
	n, err := unix.Read(other, b)
	if err == nil && string(b[:n]) != line {
		err = unix.EILSEQ
	}
	results["inside: read"] = errno(err)
	_, err = unix.IoctlGetTermios(other, unix.TCGETS)
	results["inside: settings"] = errno(err)
	_ = unix.Close(other)
	_ = unix.Close(ours)
	results["open one that is gone"] = errno(open(unix.O_RDWR | unix.O_NOCTTY)(name))
	return results
}

func TestOwnTerminalsOnly(t *testing.T) {
	fd, name, err := makePTY()
	must(t, err)
	defer unix.Close(fd)
	t.Setenv(foreignTerminal, name)
	for name, got := range act(t, workspace(t), 6, "terminals") {
		inside := strings.HasPrefix(name, "inside")
		if inside && got != 0 || !inside && got != unix.EACCES && got != unix.EPERM && got != unix.ENOENT {
			t.Errorf("%s: got %v, want success inside, and EACCES, EPERM or ENOENT otherwise", name, got)
		}
	}
}
