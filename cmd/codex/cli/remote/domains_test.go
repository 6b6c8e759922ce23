package remote

import (
	"slices"
	"testing"

	"codex.internal/cmd/codex/cli/sandbox"
)

func TestNetworkOptions(t *testing.T) {
	read, err := sandbox.ParsePolicy("read-only")
	if err != nil {
		t.Fatal(err)
	}
	profile, err := sandbox.ParsePolicy(`{"type":"disabled"}`)
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		o       execOptions
		domains []string
		network bool
		want    bool // the pattern is accepted
	}{
		"nothing":                    {execOptions{}, nil, false, true},
		"a sandbox":                  {execOptions{policy: read}, nil, false, true},
		"hosts":                      {execOptions{policy: read}, []string{"a.test", "*.b.test", "::1", "[::1]"}, false, true},
		"ports":                      {execOptions{policy: read}, []string{"a.test:443", "[::1]:443", "*:22"}, false, true},
		"no port":                    {execOptions{policy: read}, []string{"a.test:"}, false, false},
		"a scheme":                   {execOptions{policy: read}, []string{"https://a.test"}, false, false},
		"hosts without a sandbox":    {execOptions{}, []string{"a.test"}, false, false},
		"ask without a sandbox":      {execOptions{askNetwork: true}, nil, false, false},
		"network without a sandbox":  {execOptions{}, nil, true, false},
		"network":                    {execOptions{policy: read}, nil, true, true},
		"network in JSON":            {execOptions{policy: profile}, nil, true, false},
		"network and hosts":          {execOptions{policy: read}, []string{"a.test"}, true, false},
		"network and questions":      {execOptions{policy: read, askNetwork: true}, nil, true, false},
		"questions":                  {execOptions{policy: read, askNetwork: true}, []string{"a.test"}, false, true},
		"questions and --yes":        {execOptions{policy: read, askNetwork: true, yes: true}, nil, false, false},
		"questions and --no-input":   {execOptions{policy: read, askNetwork: true, noInput: true}, nil, false, false},
		"questions and no retries":   {execOptions{policy: read, askNetwork: true, ask: askNever}, nil, false, true},
		"hosts, and no more of them": {execOptions{policy: read, yes: true}, []string{"a.test"}, false, true},
	} {
		if err := tt.o.parseNetwork(tt.domains, tt.network); (err == nil) != tt.want {
			t.Errorf("%s: got error %v, want success: %v", name, err, tt.want)
		}
	}
}

// TestNetworkProxyOption: a pattern with a port is sent to the server without the port, together
// with a request to ask about its hosts. Without such patterns the server asks no questions.
func TestNetworkProxyOption(t *testing.T) {
	read, err := sandbox.ParsePolicy("read-only")
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		ask     bool
		domains []string
		proxy   bool
		review  []string
		asks    bool
	}{
		"nothing":   {false, nil, false, nil, false},
		"hosts":     {false, []string{"a.test", "b.test"}, true, nil, false},
		"a port":    {false, []string{"a.test", "b.test:443"}, true, []string{"b.test"}, true},
		"questions": {true, nil, true, nil, true},
	} {
		o := execOptions{policy: read, askNetwork: tt.ask}
		if err := o.parseNetwork(tt.domains, false); err != nil {
			t.Fatal(err)
		}
		n := o.networkProxy()
		if (n != nil) != tt.proxy {
			t.Errorf("%s: got %+v, want n != nil: %v", name, n, tt.proxy)
		}
		if n == nil {
			continue
		}
		p := n.Proxy
		if !p.Enabled || p.AllowLocalBinding || len(p.Domains) != len(tt.domains) || !slices.Equal(p.ReviewDomains, tt.review) {
			t.Errorf("%s: got %+v; want p.Enabled true, p.AllowLocalBinding false, len(p.Domains) %v, p.ReviewDomains %v", name, p, len(tt.domains), tt.review)
		}
		for pattern, permission := range p.Domains {
			if permission != "allow" || pattern != "a.test" && pattern != "b.test" {
				t.Errorf("%s: %s of %s", name, permission, pattern)
			}
		}
		if (n.PolicyDecisionTimeoutMS != nil) != tt.asks {
			t.Errorf("%s: questions: %v", name, n.PolicyDecisionTimeoutMS)
		}
	}
}
