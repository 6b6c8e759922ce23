package remote

import (
	"testing"

	"codex.internal/cmd/codex/cli/sandbox"
)

func TestAllowedDomains(t *testing.T) {
	box := &sandbox.Policy{}
	for _, tt := range []struct {
		o    execOptions
		want bool // it is accepted
	}{
		{execOptions{}, true},
		{execOptions{policy: box}, true},
		{execOptions{policy: box, domains: []string{"a.test", "*.b.test", "::1", "[::1]"}}, true},
		{execOptions{domains: []string{"a.test"}}, false},
		{execOptions{policy: box, domains: []string{"a.test:443"}}, false},
		{execOptions{policy: box, domains: []string{"[::1]:443"}}, false},
	} {
		if err := tt.o.checkDomains(); (err == nil) != tt.want {
			t.Errorf("%v: %v", tt.o.domains, err)
		}
	}
	if (execOptions{}).networkProxy() != nil {
		t.Error("a proxy without domains would be one that refuses everything")
	}
	p := execOptions{domains: []string{"a.test", "b.test"}}.networkProxy()
	if !p.Proxy.Enabled || p.Proxy.AllowLocalBinding || len(p.Proxy.Domains) != 2 || p.Proxy.Domains["a.test"] != "allow" {
		t.Errorf("got %+v", p.Proxy)
	}
}
