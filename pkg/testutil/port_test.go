package testutil

import (
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
)

// TestFreePort listens on the result of FreePort. The kernel's own range must not contain that
// port.
func TestFreePort(t *testing.T) {
	for range 100 {
		port, err := FreePort()
		if err != nil {
			t.Fatal(err)
		}
		l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
		if err != nil {
			t.Fatal(err)
		}
		_ = l.Close()
		if port < firstFree || port >= afterFree {
			t.Fatalf("got %v; want at least %v, less than %v", port, firstFree, afterFree)
		}
	}
	var first, last int
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err != nil {
		t.Logf("this system does not tell its range: %v", err)
	} else if _, err := fmt.Sscan(strings.TrimSpace(string(text)), &first, &last); err != nil || first < afterFree {
		t.Logf("this system gives ports from %d to %d, %v: FreePort is less certain here", first, last, err)
	}
}
