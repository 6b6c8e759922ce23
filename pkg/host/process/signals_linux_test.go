package process

import (
	"os"
	"os/signal"
	"regexp"
	"strconv"
	"syscall"
	"testing"
)

// TestIgnoredSignals compares the kernel's answers with /proc.
func TestIgnoredSignals(t *testing.T) {
	ignored := []os.Signal{syscall.SIGHUP, syscall.SIGTSTP, syscall.Signal(maxSignal)}
	signal.Ignore(ignored...)
	defer signal.Reset(ignored...)
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	text := regexp.MustCompile(`SigIgn:\s*([0-9a-f]+)`).FindSubmatch(status)
	if text == nil {
		t.Fatalf("no SigIgn in %s", status)
	}
	want, err := strconv.ParseUint(string(text[1]), 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	var got uint64
	for sig := syscall.Signal(1); sig <= maxSignal; sig++ {
		if isIgnored(sig) {
			got |= 1 << (sig - 1)
		}
	}
	if got != want || want == 0 {
		t.Errorf("%#x are ignored, and /proc shows %#x", got, want)
	}
}
