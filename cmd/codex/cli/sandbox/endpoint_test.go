package sandbox

import "testing"

// TestRefusedHosts: a name that was asked for by DNS has no port, and the option for it
// permits every port.
func TestRefusedHosts(t *testing.T) {
	for _, tt := range []struct {
		refused []Endpoint
		want    string
	}{
		{[]Endpoint{{"a.test", 443}}, "a.test port 443; to let the command reach them use --allow-domain a.test:443"},
		{[]Endpoint{{"::1", 80}}, "::1 port 80; to let the command reach them use --allow-domain [::1]:80"},
		{[]Endpoint{{"a.test", 0}, {"b.test", 22}}, "a.test, b.test port 22; to let the command reach them use --allow-domain a.test --allow-domain b.test:22"},
		{[]Endpoint{{"b\u00fccher.test", 0}}, `b\u00fccher.test; to let the command reach them use --allow-domain ` + "b\u00fccher.test"},
	} {
		if got := RefusedHosts(tt.refused); got != "the network proxy of the command refused "+tt.want {
			t.Errorf("%v: %q", tt.refused, got)
		}
	}
}
