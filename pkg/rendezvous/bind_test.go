package rendezvous

import (
	"context"
	"errors"
	"net/url"
	"testing"
)

// failingBus fails after it has bound an address, as if the shared state became unreachable during
// the call.
type failingBus struct {
	*LocalBus
	bound func(address string)
}

var errBus = errors.New("out of reach")

func (b *failingBus) Bind(ctx context.Context, address string, generation uint64, box *Mailbox) ([]Message, error) {
	left, err := b.LocalBus.Bind(ctx, address, generation, box)
	if err == nil && generation > 0 {
		b.bound(address)
		b.Unbind(address, box)
		err = errBus
	}
	return left, err
}

// TestBindFails: the bus fails while an executor takes its address. The messages that harnesses
// sent to it and to its former connection are returned, and the harnesses are notified that no
// executor will handle them.
func TestBindFails(t *testing.T) {
	bus := &failingBus{LocalBus: NewLocalBus()}
	s := start(t, Options{Bus: bus, State: newRegistry(nil)})
	held := 0
	send := func(address, from string) {
		held++
		m := Message{Kind: Frame, From: from, Data: []byte("x"), Done: func() { held-- }}
		if _, err := bus.Send(context.Background(), address, m); err != nil {
			t.Error(err)
		}
	}
	boxes := map[string]*Mailbox{"harness.former": NewMailbox(1), "harness.new": NewMailbox(1)}
	for address, box := range boxes {
		if _, err := bus.LocalBus.Bind(context.Background(), address, 0, box); err != nil {
			t.Fatal(err)
		}
	}
	bundle := s.register("env")
	bus.bound = func(address string) { send(address, "harness.new") }
	u, err := url.Parse(bundle.URL)
	if err != nil {
		t.Fatal(err)
	}
	ticket, err := readTicket(u.RawQuery, s.urls, s.now())
	if err != nil {
		t.Fatal(err)
	}
	address := executorAddress(ticket.registration)
	if _, err := bus.LocalBus.Bind(context.Background(), address, 0, NewMailbox(1)); err != nil {
		t.Fatal(err)
	}
	send(address, "harness.former")
	if got := refused(t, bundle.URL); got != "503 bus_unavailable" {
		t.Errorf(`got %s, want "503 bus_unavailable"`, got)
	}
	if held != 0 {
		t.Errorf("%d messages are not given back", held)
	}
	for from, box := range boxes {
		if m, ok, err := box.Take(); !ok || err != nil || m.Kind != Gone || m.From != address {
			t.Errorf("%s: got m %+v, ok %v, error %v; want ok true, no error, m.Kind %v, m.From %v", from, m, ok, err, Gone, address)
		}
	}
}
