package sandbox

import "testing"

// TestRefusedHosts: a name from a DNS query has no port, so the suggested option
// permits every port. Options are suggested only for names that are harmless in a
// shell.
func TestRefusedHosts(t *testing.T) {
	for _, tt := range []struct {
		refused []Endpoint
		want    string
	}{
		{[]Endpoint{{"a.test", 443}}, "a.test port 443; to let the command reach them use --allow-domain a.test:443"},
		{[]Endpoint{{"::1", 80}}, "::1 port 80; to let the command reach them use --allow-domain [::1]:80"},
		{[]Endpoint{{"a.test", 0}, {"b.test", 22}}, "a.test, b.test port 22; to let the command reach them use --allow-domain a.test --allow-domain b.test:22"},
		{[]Endpoint{{"b\u00fccher.test", 0}}, `b\u00fccher.test; to let the command reach them use --allow-domain ` + "b\u00fccher.test"},
		// The user's shell must not execute a name that a command chose.
		{[]Endpoint{{"a&b$(c)'~.test", 443}}, "a&b$(c)'~.test port 443; to let the command reach them use --allow-domain"},
		{[]Endpoint{{"a$b.test", 0}, {"a-b_c.test", 22}}, "a$b.test, a-b_c.test port 22; to let the command reach them use --allow-domain a-b_c.test:22"},
	} {
		if got := RefusedHosts(tt.refused); got != "the network proxy of the command refused "+tt.want {
			t.Errorf("%v: got %q, want %q", tt.refused, got, "the network proxy of the command refused "+tt.want)
		}
	}
}
