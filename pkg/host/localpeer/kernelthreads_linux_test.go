package localpeer

import (
	"os"
	"strconv"
	"testing"

	"golang.org/x/sys/unix"
)

// TestKernelThreads: what is left out of a scan has no memory and no descriptors, so that it is no program.
func TestKernelThreads(t *testing.T) {
	threads := kernelThreads()
	for pid := range threads {
		dir, err := openProcess(pid)
		if err != nil {
			continue // it has ended
		}
		stat, err := readAt(dir, "stat")
		if err == nil && !isKernelThread(stat) {
			t.Errorf("process %d is left out: %s", pid, stat)
		}
		_ = unix.Close(dir)
	}
	if threads[os.Getpid()] || threads[os.Getppid()] {
		t.Error("programs are left out")
	}
}

// TestIsKernelThread finds the flags behind names that look like other fields.
func TestIsKernelThread(t *testing.T) {
	const kernel, program = 2129984, 4194560
	line := func(name string, flags int) string {
		return "7 (" + name + ") S 2 0 0 0 -1 " + strconv.Itoa(flags) + " 0 0 0 0 0\n"
	}
	for _, name := range []string{"kthreadd", "a) S 2 0 0 0 -1 2129984 0", ") (", ""} {
		if !isKernelThread([]byte(line(name, kernel))) {
			t.Errorf("%q: a kernel thread is taken for a program", name)
		}
		if isKernelThread([]byte(line(name, program))) {
			t.Errorf("%q: a program is taken for a kernel thread", name)
		}
	}
	for _, text := range []string{"", "7 (x", "7 (x) S 2 0", "7 (x) S 2 0 0 0 -1 many 0"} {
		if isKernelThread([]byte(text)) {
			t.Errorf("%q is taken for a kernel thread", text)
		}
	}
}
