package egress

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// testProxy returns a proxy with a policy. The proxy is closed when the test ends.
func testProxy(t testing.TB, o Options, config Config, hooks Hooks) *Proxy {
	t.Helper()
	if o.Getenv == nil {
		o.Getenv = func(string) string { return "" }
	}
	policy, err := NewPolicy(config)
	if err != nil {
		t.Fatal(err)
	}
	o.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	x, err := NewHost(o).Start(policy, hooks)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(x.Close)
	return x
}

// names returns the resolver of these tests.
func names(looked *[]string) func(context.Context, string) ([]netip.Addr, error) {
	return func(_ context.Context, name string) ([]netip.Addr, error) {
		*looked = append(*looked, name)
		switch name {
		case "public.test":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("2606:4700::1")}, nil
		case "mixed.test":
			return []netip.Addr{netip.MustParseAddr("8.8.8.8"), netip.MustParseAddr("10.0.0.1")}, nil
		case "nat64.test":
			return []netip.Addr{netip.MustParseAddr("64:ff9b::169.254.169.254")}, nil
		}
		return nil, errors.New("no such host")
	}
}

func TestDecisions(t *testing.T) {
	both := map[string]Permission{"*": Allow, "denied.test": Deny, "127.0.0.1": Allow, "off.test": None}
	few := map[string]Permission{"public.test": Allow, "mixed.test": Allow, "localhost": Allow}
	allow, deny := Answer{Verdict: Pass}, Answer{Block, "own words"}
	for _, tt := range []struct {
		name   string
		config Config
		host   string
		answer *Answer // nil: no questions
		want   string  // verdict, source, reason
		asked  bool
		looked bool
	}{
		{"listed", Config{Domains: both}, "public.test", nil, "allow baseline_policy allow", false, true},
		{"denied before allowed", Config{Domains: both}, "denied.test", &allow, "deny baseline_policy denied", false, false},
		{"none is absent", Config{Domains: map[string]Permission{"off.test": None}}, "off.test", nil, "deny baseline_policy not_allowed", false, false},
		{"loopback by a wildcard", Config{Domains: both}, "127.0.0.2", &allow, "deny baseline_policy not_allowed_local", false, false},
		{"loopback by name", Config{Domains: both}, "127.0.0.1", nil, "allow baseline_policy allow", false, false},
		{"localhost by name", Config{Domains: few}, "localhost", nil, "allow baseline_policy allow", false, false},
		{"localhost by a wildcard", Config{Domains: both}, "localhost", nil, "deny baseline_policy not_allowed_local", false, false},
		{"one private address of two", Config{Domains: few}, "mixed.test", nil, "deny baseline_policy not_allowed_local", false, true},
		{"a private address behind NAT64", Config{Domains: both}, "nat64.test", nil, "deny baseline_policy not_allowed_local", false, true},
		{"no address", Config{Domains: both}, "none.test", nil, "deny baseline_policy not_allowed_local", false, true},
		{"not listed", Config{Domains: few}, "other.test", nil, "deny baseline_policy not_allowed", false, false},
		{"asked, allowed, private", Config{}, "mixed.test", &allow, "deny baseline_policy not_allowed_local", true, true},
		{"asked and allowed", Config{}, "public.test", &allow, "allow decider not_allowed", true, true},
		{"asked and denied", Config{}, "public.test", &deny, "deny decider own words", true, false},
		{"no answer", Config{}, "public.test", &Answer{}, "deny decider not_allowed", true, false},
		{"ask again", Config{}, "public.test", &Answer{Later, "later"}, "ask decider later", true, false},
		{"an empty reason", Config{}, "public.test", &Answer{Block, ""}, "deny decider policy_denied", true, false},
		{"a long reason", Config{}, "public.test", &Answer{Block, strings.Repeat("r", maxReason+1)}, "deny decider not_allowed", true, false},
		{"a control character", Config{}, "public.test", &Answer{Block, "a\ab"}, "deny decider not_allowed", true, false},
		{"under review", Config{Domains: few, Review: []string{"public.*"}}, "public.test", &allow, "allow decider not_allowed", true, true},
		{"under review, no one to ask", Config{Domains: few, Review: []string{"public.*"}}, "public.test", nil, "deny baseline_policy not_allowed", false, false},
		{"local binding", Config{Domains: both, LocalBinding: true}, "127.0.0.2", nil, "allow baseline_policy allow", false, false},
		{"local binding, private name", Config{Domains: both, LocalBinding: true}, "mixed.test", nil, "allow baseline_policy allow", false, true},
		{"local binding, denied", Config{Domains: both, LocalBinding: true}, "denied.test", nil, "deny baseline_policy denied", false, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var looked []string
			asked := false
			hooks := Hooks{Ask: func(_ context.Context, q Question) Answer {
				asked = q == Question{HTTP, tt.host, 80}
				return *tt.answer
			}}
			if tt.answer != nil {
				tt.config.AskTime = time.Second
			}
			x := testProxy(t, Options{Resolve: names(&looked)}, tt.config, hooks)
			d := x.decide(t.Context(), Question{HTTP, tt.host, 80}, false)
			if got := string(d.verdict) + " " + string(d.source) + " " + d.reason; got != tt.want {
				t.Errorf("%s (%s), want %s", got, d.rule, tt.want)
			}
			if asked != tt.asked || (len(looked) > 0) != tt.looked {
				t.Errorf("asked %v, looked up %v", asked, looked)
			}
			if d.override != (d.verdict == Pass && tt.asked) {
				t.Errorf("override %v", d.override)
			}
			if !tt.config.LocalBinding && d.verdict == Pass && tt.looked && slices.ContainsFunc(d.addresses, func(a netip.Addr) bool { return !public(a) }) {
				t.Errorf("private addresses %v", d.addresses)
			}
		})
	}
}

// TestDeniedSpellings: a denied IPv4 address cannot be reached through IPv6 addresses
// that contain it.
func TestDeniedSpellings(t *testing.T) {
	ceiling, err := NewCeiling(CeilingConfig{Default: Allow, Deny: []string{"9.9.9.9:80"}})
	if err != nil {
		t.Fatal(err)
	}
	x := testProxy(t, Options{Ceiling: ceiling}, Config{Domains: map[string]Permission{"*": Allow, "8.8.8.*": Deny}}, Hooks{})
	for text, want := range map[string]string{
		"8.8.8.8": ReasonDenied, "[::ffff:8.8.8.8]": ReasonDenied, "[64:ff9b::8.8.8.8]": ReasonDenied, "[2002:808:808::1]": ReasonDenied,
		"[::8.8.8.8]": ReasonDenied, "[64:ff9b::8.8.9.8]": ReasonAllow, "9.9.9.9": ReasonDenied, "[64:ff9b::9.9.9.9]": ReasonDenied,
		"1.1.1.1": ReasonAllow,
	} {
		host, ok := normalHost(text)
		if d := x.decide(t.Context(), Question{SOCKS, host, 80}, false); !ok || d.reason != want {
			t.Errorf("%s: %s, want %s", text, d.reason, want)
		}
	}
}

// TestDeniedAddressesByName: a rule about an address applies to each name that resolves to it.
// Otherwise a command that may reach every host except one could reach that host by another name.
func TestDeniedAddressesByName(t *testing.T) {
	all := map[string]Permission{"*": Allow, "localhost": Allow}
	denied := map[string]Permission{"*": Allow, "localhost": Allow, "8.8.8.*": Deny, "::1": Deny, "169.254.169.254": Deny}
	for name, tt := range map[string]struct {
		ceiling CeilingConfig
		config  Config
		host    string
		port    uint16
		byName  bool // an upstream proxy resolves it
		want    string
		asked   bool
	}{
		"by the client":            {CeilingConfig{}, Config{Domains: denied}, "public.test", 80, false, ReasonDenied, false},
		"upstream":                 {CeilingConfig{}, Config{Domains: denied}, "public.test", 80, true, ReasonDenied, false},
		"with local binding":       {CeilingConfig{}, Config{Domains: denied, LocalBinding: true}, "public.test", 80, false, ReasonDenied, false},
		"upstream, local binding":  {CeilingConfig{}, Config{Domains: denied, LocalBinding: true}, "public.test", 80, true, ReasonDenied, false},
		"packed in IPv6":           {CeilingConfig{}, Config{Domains: denied, LocalBinding: true}, "nat64.test", 80, false, ReasonDenied, false},
		"localhost":                {CeilingConfig{}, Config{Domains: denied}, "localhost", 80, false, ReasonDenied, false},
		"after a question":         {CeilingConfig{}, Config{Domains: map[string]Permission{"8.8.8.8": Deny}, AskTime: time.Second}, "public.test", 80, false, ReasonDenied, true},
		"by the owner":             {CeilingConfig{Deny: []string{"2606:4700::1"}}, Config{Domains: all}, "public.test", 80, false, ReasonDenied, false},
		"by the owner, one port":   {CeilingConfig{Deny: []string{"8.8.8.8:80"}}, Config{Domains: all}, "public.test", 80, false, ReasonDenied, false},
		"by the owner, not here":   {CeilingConfig{Deny: []string{"8.8.8.8:443"}}, Config{Domains: all}, "public.test", 80, false, ReasonAllow, false},
		"asked about by the owner": {CeilingConfig{Ask: []string{"8.8.8.8"}}, Config{Domains: all, AskTime: time.Second}, "public.test", 80, false, ReasonNotAllowed, true},
		"nobody to ask":            {CeilingConfig{Ask: []string{"8.8.8.8"}}, Config{Domains: all}, "public.test", 80, false, ReasonNotAllowed, false},
		"under review":             {CeilingConfig{}, Config{Domains: all, Review: []string{"8.8.8.8"}, AskTime: time.Second}, "public.test", 80, false, ReasonNotAllowed, true},
		"no rule":                  {CeilingConfig{}, Config{Domains: all}, "public.test", 80, false, ReasonAllow, false},
	} {
		t.Run(name, func(t *testing.T) {
			tt.ceiling.Default, tt.ceiling.PrivateAddresses = Allow, true
			ceiling, err := NewCeiling(tt.ceiling)
			if err != nil {
				t.Fatal(err)
			}
			x := testProxy(t, Options{Ceiling: ceiling, Resolve: names(new([]string))}, tt.config,
				Hooks{Ask: func(context.Context, Question) Answer { return Answer{Verdict: Pass} }})
			d := x.decide(t.Context(), Question{SOCKS, tt.host, tt.port}, tt.byName)
			if d.reason != tt.want || d.asked != tt.asked || (len(d.addresses) > 0) != (d.verdict == Pass) {
				t.Errorf("got %+v; want the reason %s, asked %v", d, tt.want, tt.asked)
			}
		})
	}
}

// TestNamesBelowLocalhost: names below localhost mean this machine, as localhost does, and are not
// resolved.
func TestNamesBelowLocalhost(t *testing.T) {
	var looked []string
	x := testProxy(t, Options{Resolve: names(&looked)}, Config{Domains: map[string]Permission{"*": Allow, "app.localhost": Allow}}, Hooks{})
	for host, want := range map[string]string{
		"app.localhost": ReasonAllow, "x.localhost": ReasonLocal, "x.localhost.localdomain": ReasonLocal,
	} {
		d := x.decide(t.Context(), Question{HTTP, host, 80}, false)
		if d.reason != want || d.verdict == Pass && (len(d.addresses) != 2 || !d.addresses[0].IsLoopback()) {
			t.Errorf("%s: got %+v; want d.reason %v, len(d.addresses) 2, d.addresses[0].IsLoopback()", host, d, want)
		}
	}
	if len(looked) > 0 {
		t.Errorf("looked up %q", looked)
	}
}

// TestUpstreamNames: a name that only an upstream proxy can resolve is sent to that proxy. A name
// that has a private address here is not.
func TestUpstreamNames(t *testing.T) {
	var looked []string
	x := testProxy(t, Options{Resolve: names(&looked)}, Config{Domains: map[string]Permission{"*": Allow}}, Hooks{})
	for host, want := range map[string]Verdict{
		"none.test": Pass, "mixed.test": Block, "public.test": Pass, "1.0x.test": Pass, "0x7f.test": Pass,
		// An upstream proxy may take these names for this machine, or for another address.
		"x.localhost": Block, "localhost.localdomain": Block, "2852039166": Block, "127.1": Block, "0x7f.0.0.1": Block, "0177.0.0.01": Block,
		"0xa9fea9fe": Block, "a.0x": Block, "1.2.3.4.5": Block, "b\u00fccher.test": Block,
	} {
		if d := x.decide(t.Context(), Question{HTTP, host, 80}, true); d.verdict != want {
			t.Errorf("%s: got %s, want %s", host, d.verdict, want)
		}
	}
}

// askingProxy is a proxy without listeners, for tests with a false clock.
func askingProxy(config Config, ask func(context.Context, Question) Answer) *Proxy {
	policy, _ := NewPolicy(config)
	x := &Proxy{host: NewHost(Options{}), policy: policy, hooks: Hooks{Ask: ask}, questions: make(chan struct{}, maxQuestions)}
	x.ctx, x.cancel = context.WithCancel(context.Background())
	x.asking, x.mute = context.WithCancel(x.ctx)
	return x
}

func wait(ctx context.Context, _ Question) Answer {
	<-ctx.Done()
	return Answer{}
}

// TestQuestionTime: a question ends 5 s after the time limit that the client has set.
func TestQuestionTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := askingProxy(Config{AskTime: time.Second}, wait)
		defer x.cancel()
		began := time.Now()
		d := x.decide(x.ctx, Question{HTTP, "a.test", 80}, false)
		if d.verdict != Block || d.reason != ReasonNotAllowed || d.source != Decider {
			t.Errorf("got %+v; want d.verdict %v, d.reason %v, d.source %v", d, Block, ReasonNotAllowed, Decider)
		}
		if took := time.Since(began); took != time.Second+askGrace {
			t.Errorf("took %s", took)
		}
	})
}

// TestStopAsking: StopAsking denies an open question and each later one. Listed hosts can still be
// reached.
func TestStopAsking(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := askingProxy(Config{AskTime: time.Hour, LocalBinding: true, Domains: map[string]Permission{"127.0.0.1": Allow}}, wait)
		defer x.cancel()
		denied := make(chan decision)
		go func() { denied <- x.decide(x.ctx, Question{HTTP, "a.test", 80}, false) }()
		synctest.Wait()
		x.StopAsking()
		for range 2 {
			if d := <-denied; d.verdict != Block {
				t.Errorf("got %+v, want d.verdict %v", d, Block)
			}
			go func() { denied <- x.decide(x.ctx, Question{HTTP, "b.test", 80}, false) }()
		}
		<-denied
		if d := x.decide(x.ctx, Question{HTTP, "127.0.0.1", 80}, false); d.verdict != Pass {
			t.Errorf("got %+v, want d.verdict %v", d, Pass)
		}
	})
}

// TestQuestionLimit: a question beyond the limit is denied at once.
func TestQuestionLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		x := askingProxy(Config{AskTime: time.Hour}, wait)
		done := make(chan decision, maxQuestions)
		for range maxQuestions {
			go func() { done <- x.decide(x.ctx, Question{HTTP, "a.test", 80}, false) }()
		}
		synctest.Wait()
		if d := x.decide(x.ctx, Question{HTTP, "b.test", 80}, false); d.verdict != Block || d.rule != "too many questions are open" {
			t.Errorf(`got %+v; want d.verdict %v, d.rule "too many questions are open"`, d, Block)
		}
		x.cancel()
		for range maxQuestions {
			<-done
		}
	})
}
