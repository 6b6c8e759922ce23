package egress

import (
	"context"
	"net/netip"
	"testing"
	"time"
)

// TestCeiling: if the owner refuses a host, neither a client's policy nor an answer can permit it.
// The owner's policy does not permit a host that the client's policy refuses.
func TestCeiling(t *testing.T) {
	open := Config{AskTime: time.Minute, LocalBinding: true, Domains: map[string]Permission{"*": Allow, "client-denies.test": Deny}}
	narrow := Config{Domains: map[string]Permission{"127.0.0.1": Allow, "localhost": Allow, "a.test": Allow}}
	base := CeilingConfig{
		Default: Deny, Allow: []string{"*.test"}, Deny: []string{"denied.test", "*.denied.test"}, Ask: []string{"asked.test"}, Ports: []uint16{443, 80},
	}
	change := func(f func(*CeilingConfig)) CeilingConfig {
		c := base
		f(&c)
		return c
	}
	ports := CeilingConfig{Default: Deny, Allow: []string{"a.test:443", "*.test:22"}, Ask: []string{"b.test:22"}, Deny: []string{"c.test:22"}}
	allowed := change(func(c *CeilingConfig) { c.Default = Allow })
	private := change(func(c *CeilingConfig) { c.Default, c.PrivateAddresses = Allow, true })
	for name, tt := range map[string]struct {
		ceiling CeilingConfig
		policy  Config
		host    string
		port    uint16
		want    string // the reason
		asked   bool
	}{
		"allowed by both":               {base, open, "a.test", 443, ReasonAllow, false},
		"denied by the owner":           {base, open, "denied.test", 443, ReasonDenied, false},
		"denied below a name":           {base, open, "x.denied.test", 443, ReasonDenied, false},
		"denied by the client":          {base, open, "client-denies.test", 443, ReasonDenied, false},
		"not listed by the owner":       {base, open, "a.example", 443, ReasonNotAllowed, false},
		"left to the client":            {allowed, open, "a.example", 443, ReasonAllow, false},
		"not listed by the client":      {allowed, narrow, "b.test", 443, ReasonNotAllowed, false},
		"another port":                  {base, open, "a.test", 22, ReasonNotAllowed, false},
		"asked about":                   {base, open, "asked.test", 443, ReasonNotAllowed, true},
		"asked by default":              {change(func(c *CeilingConfig) { c.Default = AskFirst }), open, "a.example", 80, ReasonNotAllowed, true},
		"nobody to ask":                 {base, Config{Domains: map[string]Permission{"*": Allow}}, "asked.test", 443, ReasonNotAllowed, false},
		"a port of the owner":           {ports, open, "a.test", 443, ReasonAllow, false},
		"not a port of the owner":       {ports, open, "a.test", 80, ReasonNotAllowed, false},
		"asked about on a port":         {ports, open, "b.test", 22, ReasonNotAllowed, true},
		"not asked about on others":     {ports, open, "b.test", 443, ReasonNotAllowed, false},
		"denied on a port":              {ports, open, "c.test", 22, ReasonDenied, false},
		"a private address":             {allowed, open, "10.0.0.1", 80, ReasonLocal, false},
		"a private address by entry":    {allowed, narrow, "127.0.0.1", 80, ReasonLocal, false},
		"localhost by entry":            {allowed, narrow, "localhost", 80, ReasonLocal, false},
		"a name of a private address":   {allowed, open, "private.test", 80, ReasonLocal, false},
		"private addresses permitted":   {private, open, "10.0.0.1", 80, ReasonAllow, false},
		"permitted, and an entry":       {private, narrow, "127.0.0.1", 80, ReasonAllow, false},
		"permitted, but not the client": {private, narrow, "10.0.0.1", 80, ReasonLocal, false},
	} {
		ceiling, err := NewCeiling(tt.ceiling)
		if err != nil {
			t.Fatal(err)
		}
		x := testProxy(t, Options{Ceiling: ceiling, Resolve: func(_ context.Context, name string) ([]netip.Addr, error) {
			if name == "private.test" {
				return []netip.Addr{netip.MustParseAddr("10.0.0.1")}, nil
			}
			return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
		}}, tt.policy, Hooks{Ask: func(context.Context, Question) Answer { return Answer{Verdict: Block, Reason: ReasonNotAllowed} }})
		d := x.decide(t.Context(), Question{HTTP, tt.host, tt.port}, false)
		if d.reason != tt.want || d.asked != tt.asked || (d.verdict == Pass) != (tt.want == ReasonAllow) {
			t.Errorf("%s: got %+v, want %s, asked: %v", name, d, tt.want, tt.asked)
		}
	}
}

// TestCeilingAndNames: a name whose port is not known yet is refused only if it is refused on every
// port.
func TestCeilingAndNames(t *testing.T) {
	for name, tt := range map[string]struct {
		config  CeilingConfig
		refused bool
		ask     bool
	}{
		"no rule":                  {CeilingConfig{Default: Deny}, true, false},
		"allowed":                  {CeilingConfig{Default: Deny, Allow: []string{"a.test"}}, false, false},
		"allowed on a port":        {CeilingConfig{Default: Deny, Allow: []string{"a.test:443"}}, false, false},
		"allowed on others' ports": {CeilingConfig{Default: Deny, Allow: []string{"b.test:443"}}, true, false},
		"denied":                   {CeilingConfig{Default: Allow, Deny: []string{"a.test"}, Ports: []uint16{443}}, true, false},
		"denied on a port":         {CeilingConfig{Default: Allow, Deny: []string{"a.test:22"}, Ports: []uint16{443}}, false, false},
		"asked about":              {CeilingConfig{Default: Deny, Ask: []string{"a.test"}, Allow: []string{"a.test"}}, false, true},
		"asked about on a port":    {CeilingConfig{Default: Deny, Ask: []string{"a.test:22"}}, false, true},
		"asked about on some":      {CeilingConfig{Default: Deny, Ask: []string{"a.test:22"}, Allow: []string{"a.test:443"}}, false, false},
		"asked about by default":   {CeilingConfig{Default: AskFirst}, false, true},
	} {
		c, err := NewCeiling(tt.config)
		if err != nil {
			t.Fatal(err)
		}
		refusal, ask := c.judgeName("a.test")
		if (refusal != nil) != tt.refused || ask != tt.ask {
			t.Errorf("%s: %+v, asked: %v", name, refusal, ask)
		}
	}
}

// TestRules: a refusal names what has refused it, so that a client knows whether it can help. The private hosts of an egress policy permit
// only what the request permits too.
func TestRules(t *testing.T) {
	var looked []string
	owner := func(private ...string) *Ceiling {
		c, err := NewCeiling(CeilingConfig{Default: Allow, Deny: []string{"owned.test"}, Private: private})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	config := Config{Domains: map[string]Permission{"*": Allow, "denied.test": Deny, "10.0.0.1": Allow}}
	open := config
	open.LocalBinding = true
	for _, tt := range []struct {
		name    string
		ceiling *Ceiling
		config  Config
		host    string
		want    Rule // "": it passes
	}{
		{"public", owner(), config, "public.test", ""},
		{"denied", nil, config, "denied.test", RuleDenied},
		{"unlisted", nil, Config{}, "public.test", RuleUnlisted},
		{"unresolved", nil, config, "nowhere.test", RuleUnresolved},
		{"private", nil, config, "mixed.test", RulePrivate},
		{"private, permitted", nil, open, "mixed.test", ""},
		{"this machine", nil, config, "localhost", RulePrivate},
		{"the server", owner(), open, "owned.test", RuleServerPolicy},
		{"the server, private", owner(), open, "mixed.test", RuleServerPrivate},
		{"the server, another private", owner("nat64.test"), open, "mixed.test", RuleServerPrivate},
		{"the server, a permitted private", owner("mixed.test"), open, "mixed.test", ""},
		{"the server, a permitted port", owner("mixed.test:443"), open, "mixed.test", RuleServerPrivate},
		{"the server, permitted by it alone", owner("mixed.test"), config, "mixed.test", RulePrivate},
		{"the server, an address", owner("10.0.0.1"), config, "10.0.0.1", ""},
		{"the server, no address", owner(), config, "10.0.0.1", RuleServerPrivate},
	} {
		x := testProxy(t, Options{Ceiling: tt.ceiling, Resolve: names(&looked)}, tt.config, Hooks{})
		d := x.decide(t.Context(), Question{HTTP, tt.host, 80}, false)
		if d.by != tt.want || (d.verdict == Pass) != (tt.want == "") {
			t.Errorf("%s: got %+v, want the rule %q", tt.name, d, tt.want)
		}
	}
}
