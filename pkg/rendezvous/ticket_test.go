package rendezvous

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"testing"
	"time"
)

func TestTickets(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	s := newSigner()
	for _, want := range []ticket{
		{end: endExecutor, environment: "ümläut & co", registration: "r", token: "0123456789ab", expires: now.Add(time.Minute)},
		{end: endHarness, environment: "e", registration: "r", token: "0123456789ab", identity: "abc", expires: now.Add(time.Minute)},
	} {
		query := want.query(s)
		got, err := readTicket(query, s, now)
		if err != nil || got != want {
			t.Errorf("got %+v, error %v; want no error, %+v", got, err, want)
		}
		if _, err := readTicket(query, s, now.Add(time.Minute-1)); err != nil {
			t.Errorf("right before its end: %v", err)
		}
		if _, err := readTicket(query, s, now.Add(time.Minute)); err != errTicket {
			t.Errorf("expired: %v", err)
		}
		if _, err := readTicket(query, newSigner(), now); err != errTicket {
			t.Errorf("of another service: %v", err)
		}
		for name := range parse(t, query) {
			changed := parse(t, query)
			changed.Set(name, changed.Get(name)+"1")
			if _, err := readTicket(changed.Encode(), s, now); err != errTicket {
				t.Errorf("%s changed: %v", name, err)
			}
			twice := parse(t, query)
			twice.Add(name, twice.Get(name))
			if _, err := readTicket(twice.Encode(), s, now); err != errTicket {
				t.Errorf("%s twice: %v", name, err)
			}
			without := parse(t, query)
			without.Del(name)
			if _, err := readTicket(without.Encode(), s, now); err != errTicket {
				t.Errorf("without %s: %v", name, err)
			}
		}
	}
	// No part of one value can be moved to the next.
	a := ticket{end: endHarness, environment: "ab", registration: "c", expires: now.Add(1)}
	b := ticket{end: endHarness, environment: "a", registration: "bc", expires: now.Add(1)}
	if a.sign(s) == b.sign(s) {
		t.Error("two tickets have the same signature")
	}
}

func parse(t *testing.T, query string) url.Values {
	t.Helper()
	values, err := url.ParseQuery(query)
	if err != nil {
		t.Fatal(err)
	}
	return values
}

func TestAuthorizations(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	a := authorizations{signer: *newSigner()}
	g := grant{"env", "reg", "key"}
	text := a.make(g, "0123456789ab", "nonce", now)
	for name, other := range map[string]grant{
		"environment": {"env2", "reg", "key"}, "registration": {"env", "reg2", "key"}, "key": {"env", "reg", "key2"},
		"moved": {"en", "vreg", "key"},
	} {
		if _, ok := a.read(text, other, now); ok {
			t.Errorf("accepted for another %s", name)
		}
	}
	for name, wrong := range map[string]string{
		"empty": "", "cut off": text[:len(text)-1], "other token": "x" + text, "longer": text + ".x", "dots": "...", "other expiry": strings.Replace(text, ".18", ".19", 1),
	} {
		if _, ok := a.read(wrong, g, now); ok {
			t.Errorf("%s: accepted", name)
		}
	}
	if _, ok := (authorizations{signer: *newSigner()}).read(text, g, now); ok {
		t.Error("accepted with another key")
	}
	if _, ok := a.read(text, g, now.Add(authorizationTime)); ok {
		t.Error("accepted after its end")
	}
	if got, ok := a.read(text, g, now); !ok || got.token != "0123456789ab" || got.nonce != "nonce" || !got.until.Equal(now.Add(authorizationTime)) {
		t.Errorf(`got %+v, ok %v; want ok true, token "0123456789ab", nonce "nonce", got.until.Equal(now.Add(authorizationTime))`, got, ok)
	}
}

func TestSpent(t *testing.T) {
	ctx := context.Background()
	r := newRegistry(nil)
	now := time.Unix(1_800_000_000, 0)
	r.now = func() time.Time { return now }
	until := now.Add(authorizationTime)
	spend := func(nonce string) bool {
		t.Helper()
		ok, err := r.Spend(ctx, nonce, until)
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	if !spend("a") || spend("a") {
		t.Error("a nonce is not accepted once")
	}
	r.Sweep(ctx)
	if spend("a") {
		t.Error("forgotten while it could be accepted again")
	}
	for i := range maxSpent - 2 {
		r.spent.spent[fmt.Sprint(i)] = until
	}
	if !spend("b") {
		t.Error("refused at the limit")
	}
	if spend("c") {
		t.Error("accepted beyond the limit")
	}
	now = until
	r.Sweep(ctx)
	if len(r.spent.spent) != 0 {
		t.Error("remembered for ever")
	}
}

// FuzzReadTicket checks that only signed values are accepted.
func FuzzReadTicket(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	s := new(signer) // a fixed key, so that a finding can be reproduced
	good := ticket{end: endHarness, environment: "e", registration: "r", token: "t", identity: "i", expires: now.Add(time.Hour)}
	f.Add(good.query(s))
	f.Add("role=harness&expires=99999999999")
	f.Fuzz(func(t *testing.T, query string) {
		if got, err := readTicket(query, s, now); err == nil && got != good {
			t.Fatalf("got %+v, want %+v", got, good)
		}
	})
}

// FuzzAuthorization checks that only issued values are accepted.
func FuzzAuthorization(f *testing.F) {
	now := time.Unix(1_800_000_000, 0)
	g := grant{"e", "r", "k"}
	var fixed authorizations
	expires := "1800000060"
	good := "token.nonce." + expires + "." + fixed.sign(g, "token", "nonce", expires)
	f.Add(good)
	f.Add("token.nonce.1800000060.AAAA")
	f.Fuzz(func(t *testing.T, text string) {
		if _, ok := fixed.read(text, g, now); ok != (text == good) {
			t.Fatalf("%q: got %v, want %v", text, ok, text == good)
		}
	})
}
