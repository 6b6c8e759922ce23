package remote

import (
	"testing"

	"codex.internal/pkg/execproto"
)

func TestAutoTarget(t *testing.T) {
	for _, tt := range []struct {
		hosts []string
		want  string
	}{
		{[]string{"127.0.0.1"}, ""},
		{[]string{"0.0.0.0"}, ""},
		{[]string{"::"}, ""},
		{[]string{"10.0.0.1", "::1"}, ""},
		{[]string{"127.0.0.2"}, "127.0.0.2"},
		{[]string{"10.0.0.1", "127.0.0.2"}, "127.0.0.2"},
		{[]string{"10.0.0.1", "10.0.0.2"}, "10.0.0.1"},
		{[]string{"x"}, "x"},
	} {
		var ports []execproto.Port
		for _, host := range tt.hosts {
			ports = append(ports, execproto.Port{Host: host, Port: 80})
		}
		to := autoTarget(autoKey{session: "s", process: "p", port: 80}, ports)
		if to.Host != tt.want || to.Port != 80 || to.ProcessID != "p" || to.Session != "s" {
			t.Errorf("%v: %+v, want the host %q", tt.hosts, to, tt.want)
		}
	}
}
