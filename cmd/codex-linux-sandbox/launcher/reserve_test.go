package launcher

import (
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// If no descriptor is reserved, a directory would become descriptor 0, the standard input of the
// command.
func TestReserveFails(t *testing.T) {
	var limit unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	l := &launch{}
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 0, Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	err := l.reserve()
	if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err == nil || l.reserved != 0 || !strings.Contains(err.Error(), "open /dev/null: too many open files") {
		t.Errorf("with no descriptor left: %v, descriptor %d", err, l.reserved)
	}
	if err := l.reserve(); err != nil || l.reserved == 0 {
		t.Errorf("with descriptors: %v, descriptor %d", err, l.reserved)
	}
}
