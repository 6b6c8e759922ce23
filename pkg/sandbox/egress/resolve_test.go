package egress

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestNamesOfHostsFile: a name without a dot that is in /etc/hosts, such as the machine's own or one of docker run --add-host,
// has its address there.
func TestNamesOfHostsFile(t *testing.T) {
	text, err := os.ReadFile("/etc/hosts")
	if err != nil {
		t.Skip(err)
	}
	tried := 0
	for line := range strings.Lines(string(text)) {
		line, _, _ = strings.Cut(line, "#")
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		want, err := netip.ParseAddr(words[0])
		if err != nil || want.Zone() != "" {
			continue
		}
		for _, name := range words[1:] {
			if strings.Contains(name, ".") || net.ParseIP(name) != nil {
				continue
			}
			tried++
			got, err := (&Host{}).resolve(t.Context(), name)
			if !slices.ContainsFunc(got, func(a netip.Addr) bool { return a.Unmap() == want }) {
				t.Errorf("%s: got %v, error %v; want %v among them", name, got, err, want)
			}
		}
	}
	if tried == 0 {
		t.Skip("/etc/hosts has no name without a dot")
	}
}
