package peercred

import (
	"bytes"
	"os"
	"strconv"
	"testing"
)

// TestKernelThreads: every process that a scan omits has no executable file, so it is not a
// program.
func TestKernelThreads(t *testing.T) {
	threads := kernelThreads(nil)
	for pid := range threads {
		_, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
		if err == nil {
			t.Errorf("process %d is left out", pid)
		}
	}
	again := kernelThreads(map[int]bool{os.Getpid(): true})
	if threads[os.Getpid()] || again[os.Getpid()] || again[os.Getppid()] {
		t.Error("programs are left out")
	}
	if len(again) == 0 != (len(threads) == 0) || len(threads) > maxUnknown {
		t.Errorf("%d kernel threads, and %d before", len(again), len(threads))
	}
	// Later scans reuse the known ids, and find the remaining kernel threads.
	children, _ := os.ReadFile("/proc/2/task/2/children")
	if more := kernelThreads(threads); len(threads) == maxUnknown && len(bytes.Fields(children)) > 2*maxUnknown && len(more) <= maxUnknown {
		t.Errorf("%d kernel threads at the second time", len(more))
	}
}

// TestIsOfKernel: the flags are found after process names that look like other fields.
func TestIsOfKernel(t *testing.T) {
	const kernel, program = 2129984, 4194560
	line := func(name string, flags int) string {
		return "7 (" + name + ") S 2 0 0 0 -1 " + strconv.Itoa(flags) + " 0 0 0 0 0\n"
	}
	for _, name := range []string{"kthreadd", "a) S 2 0 0 0 -1 2129984 0", ") (", ""} {
		if !isOfKernel([]byte(line(name, kernel))) {
			t.Errorf("%q: a kernel thread is taken for a program", name)
		}
		if isOfKernel([]byte(line(name, program))) {
			t.Errorf("%q: a program is taken for a kernel thread", name)
		}
	}
	for _, text := range []string{"", "7 (x", "7 (x) S 2 0", "7 (x) S 2 0 0 0 -1 many 0"} {
		if isOfKernel([]byte(text)) {
			t.Errorf("%q is taken for a kernel thread", text)
		}
	}
}
