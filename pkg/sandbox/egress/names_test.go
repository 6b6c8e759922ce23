package egress

import (
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/dns/dnsmessage"
)

// dnsQuery makes a query; options adds an EDNS record.
func dnsQuery(t testing.TB, name string, kind dnsmessage.Type, options bool) []byte {
	t.Helper()
	b := dnsmessage.NewBuilder(nil, dnsmessage.Header{ID: 7, RecursionDesired: true})
	must := func(err error) {
		if err != nil {
			t.Fatal(err)
		}
	}
	must(b.StartQuestions())
	must(b.Question(dnsmessage.Question{Name: dnsmessage.MustNewName(name), Type: kind, Class: dnsmessage.ClassINET}))
	if options {
		var h dnsmessage.ResourceHeader
		must(h.SetEDNS0(1232, dnsmessage.RCodeSuccess, false))
		must(b.StartAdditionals())
		must(b.OPTResource(h, dnsmessage.OPTResource{}))
	}
	text, err := b.Finish()
	must(err)
	return text
}

// told describes an answer: its code, its addresses and its reason.
func told(t testing.TB, answer []byte) string {
	t.Helper()
	var m dnsmessage.Message
	if err := m.Unpack(answer); err != nil {
		t.Fatalf("%x: got error %v, want no error", answer, err)
	}
	if m.ID != 7 || !m.Response || len(m.Questions) != 1 || len(answer) > 512 {
		t.Errorf("no answer to the query: %+v", m)
	}
	words := []string{strings.TrimPrefix(m.RCode.String(), "RCode")}
	for _, r := range m.Answers {
		switch body := r.Body.(type) {
		case *dnsmessage.AResource:
			words = append(words, fmt.Sprint(body.A))
		case *dnsmessage.AAAAResource:
			words = append(words, netip.AddrFrom16(body.AAAA).String())
		}
	}
	for _, r := range m.Additionals {
		for _, o := range r.Body.(*dnsmessage.OPTResource).Options {
			words = append(words, fmt.Sprintf("%d %d %s", o.Code, binary.BigEndian.Uint16(o.Data), o.Data[2:]))
		}
	}
	return strings.Join(words, " ")
}

// askNothing returns hooks that fail the test if the client is asked.
func askNothing(t *testing.T) Hooks {
	return Hooks{Ask: func(_ context.Context, q Question) Answer {
		t.Errorf("asked about %+v", q)
		return Answer{}
	}}
}

// TestNames: an allowed name gets its own address, from any server. Other names are refused with
// the reason. No name is resolved.
func TestNames(t *testing.T) {
	var looked []string
	seen := &reports{}
	x := testProxy(t, Options{Resolve: names(&looked)}, Config{Domains: map[string]Permission{
		"public.test": Allow, "*.many.test": Allow, "denied.many.test": Deny, "other.test": Allow,
	}}, Hooks{Report: seen.add})
	if got := told(t, x.answerNames(dnsQuery(t, "public.test.", dnsmessage.TypeAAAA, false))); got != "Success" {
		t.Errorf("without IPv6: %q", got)
	}
	x.names.ipv6.Store(true)
	for _, tt := range []struct {
		name    string
		kind    dnsmessage.Type
		options bool
		want    string
	}{
		{"public.test.", dnsmessage.TypeA, false, "Success [198 18 0 1]"},
		{"PUBLIC.Test.", dnsmessage.TypeA, true, "Success [198 18 0 1]"},
		{"a.many.test.", dnsmessage.TypeA, false, "Success [198 18 0 2]"},
		{"other.test.", dnsmessage.TypeALL, false, "Success [198 18 0 3]"},
		{"public.test.", dnsmessage.TypeAAAA, false, "Success fd9c:4e1b:a367::c612:1"},
		{"b.many.test.", dnsmessage.TypeAAAA, false, "Success fd9c:4e1b:a367::c612:4"},
		{"b.many.test.", dnsmessage.TypeA, false, "Success [198 18 0 4]"},
		{"public.test.", dnsmessage.TypeTXT, true, "Success"},
		{"denied.many.test.", dnsmessage.TypeA, true, "NameError 15 15 Domain denied by the sandbox policy."},
		{"foreign.test.", dnsmessage.TypeA, true, "NameError 15 15 Domain not in allowlist."},
		{"foreign.test.", dnsmessage.TypeAAAA, false, "NameError"},
		{"secret.foreign.test.", dnsmessage.TypeTXT, false, "NameError"},
		{"127.0.0.1.", dnsmessage.TypeA, true, "NameError 15 15 Sandbox policy blocks local/private network addresses."},
		{"localhost.", dnsmessage.TypeA, false, "Success [127 0 0 1]"},
		{"x.localhost.", dnsmessage.TypeAAAA, false, "Success ::1"},
		{"localhost.", dnsmessage.TypeMX, false, "Success"},
		{"1.0.18.198.in-addr.arpa.", dnsmessage.TypePTR, true, "NameError"},
		{".", dnsmessage.TypeNS, true, "NameError"},
	} {
		if got := told(t, x.answerNames(dnsQuery(t, tt.name, tt.kind, tt.options))); got != tt.want {
			t.Errorf("%s %s: got %q, want %q", tt.name, tt.kind, got, tt.want)
		}
	}
	if len(looked) > 0 {
		t.Errorf("resolved %q", looked)
	}
	want := []string{
		"true deny baseline_policy denied socks5_tcp denied.many.test ", "true deny baseline_policy not_allowed socks5_tcp foreign.test ",
		"true deny baseline_policy not_allowed socks5_tcp secret.foreign.test ", "true deny baseline_policy not_allowed_local socks5_tcp 127.0.0.1 ",
	}
	if got := seen.all(); !slices.Equal(got, want) {
		t.Errorf("reported %q", got)
	}
}

// TestNamesThatAreAskedAbout: the client is asked when the process connects, and not when it sends
// a query. A program may query many names that it does not use.
func TestNamesThatAreAskedAbout(t *testing.T) {
	ceiling, err := NewCeiling(CeilingConfig{Default: Allow, Deny: []string{"denied.test"}, Ports: []uint16{443}})
	if err != nil {
		t.Fatal(err)
	}
	x := testProxy(t, Options{Ceiling: ceiling}, Config{AskTime: time.Minute, Domains: map[string]Permission{"denied2.test": Deny}}, askNothing(t))
	for name, want := range map[string]string{
		"a.test.": "Success [198 18 0 1]", "denied.test.": "NameError", "denied2.test.": "NameError",
	} {
		if got := told(t, x.answerNames(dnsQuery(t, name, dnsmessage.TypeA, false))); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
	x.StopAsking()
	if got := told(t, x.answerNames(dnsQuery(t, "b.test.", dnsmessage.TypeA, false))); got != "NameError" {
		t.Errorf("without anyone to ask: %q", got)
	}
}

// TestNamesAreBounded: no address stands for two names, and the table has a limit.
func TestNamesAreBounded(t *testing.T) {
	var n nameTable
	for i := range maxNames {
		if _, ok := n.address(fmt.Sprint(i)); !ok {
			t.Fatalf("%d names are too many", i)
		}
	}
	if len(n.hosts) != maxNames {
		t.Errorf("%d names have %d addresses", maxNames, len(n.hosts))
	}
	for address := range n.hosts {
		if !isMadeUp(address) {
			t.Fatalf("%s stands for a name", address)
		}
	}
	if _, ok := n.address("more"); ok {
		t.Error("there is an address for one name too many")
	}
	if first, ok := n.address("0"); !ok || first.String() != "198.18.0.1" {
		t.Errorf("the first name is forgotten: %s %v", first, ok)
	}
	for i := range maxRefusedNames {
		if !n.refuse(fmt.Sprint(i)) || n.refuse(fmt.Sprint(i)) {
			t.Fatalf("name %d is not reported once", i)
		}
	}
	if n.refuse("more") {
		t.Error("one refused name too many is reported")
	}
}

// TestQueriesThatAreNone: if the proxy answered an answer, the two sides could answer each other
// forever.
func TestQueriesThatAreNone(t *testing.T) {
	x := testProxy(t, Options{}, local(), Hooks{})
	query := dnsQuery(t, "a.test.", dnsmessage.TypeA, false)
	answer := slices.Clone(query)
	answer[2] |= 0x80
	for _, b := range [][]byte{nil, query[:5], query[:13], answer} {
		if got := x.answerNames(b); got != nil {
			t.Errorf("%x: got %x, want nil", b, got)
		}
	}
	two, status, chaos := slices.Clone(query), slices.Clone(query), slices.Clone(query)
	two[5] = 2
	two = append(two, query[12:]...)
	status[2] |= 2 << 3
	chaos[len(chaos)-1] = 3
	for want, b := range map[string][]byte{"FormatError": two, "NotImplemented": status, "Refused": chaos} {
		if got := told(t, x.answerNames(b)); got != want {
			t.Errorf("%s: got %q, want %q", want, got, want)
		}
	}
}

// FuzzNames: for any query, the answer is complete and short, and contains only
// addresses that stand for names.
func FuzzNames(f *testing.F) {
	x := testProxy(f, Options{}, Config{Domains: map[string]Permission{"*.test": Allow, "b.test": Deny}}, Hooks{})
	x.names.ipv6.Store(true)
	for _, name := range []string{"a.test.", "b.test.", "c.example.", ".", "localhost."} {
		f.Add(dnsQuery(f, name, dnsmessage.TypeA, true))
		f.Add(dnsQuery(f, name, dnsmessage.TypeAAAA, false))
	}
	f.Fuzz(func(t *testing.T, query []byte) {
		answer := x.answerNames(query)
		if answer == nil {
			return
		}
		var m dnsmessage.Message
		if err := m.Unpack(answer); err != nil || !m.Response || len(m.Questions) != 1 || len(answer) > 512 {
			t.Fatalf("%x: got m %+v, error %v; want no error, m.Response true, len(m.Questions) 1, len(answer) at most 512", answer, m, err)
		}
		for _, r := range m.Answers {
			var told netip.Addr
			switch body := r.Body.(type) {
			case *dnsmessage.AResource:
				told = netip.AddrFrom4(body.A)
			case *dnsmessage.AAAAResource:
				told = netip.AddrFrom16(body.AAAA)
			}
			if !told.IsLoopback() && !isMadeUp(told) {
				t.Errorf("the address %v was told", told)
			}
		}
	})
}
