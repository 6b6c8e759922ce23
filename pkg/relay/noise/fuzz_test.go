package noise

import (
	"bytes"
	"encoding/json"
	"errors"
	"testing"
)

// typical returns the first of the recorded handshakes.
func typical(t testing.TB) *vector { return &readVectors(t).Cases[0] }

// FuzzMessage1 makes the executor read messages that anybody may send. Only the
// recorded one is valid.
func FuzzMessage1(f *testing.F) {
	v := typical(f)
	id := newIdentity(v.pair(f, "responder_static"))
	f.Add(v.Message1)
	f.Fuzz(func(t *testing.T, message []byte) {
		r, err := NewResponder(id, v.channel(), message)
		if err == nil != bytes.Equal(message, v.Message1) {
			t.Fatalf("%d bytes: %v", len(message), err)
		}
		if err != nil && !errors.Is(err, ErrHandshake) && !errors.Is(err, ErrInvalidMessage) {
			t.Fatalf("the error is none of ours: %v", err)
		}
		if err == nil && !bytes.Equal(r.Payload(), v.Payload1) {
			t.Fatalf("the payload is %q", r.Payload())
		}
	})
}

// FuzzMessage2 makes the harness read messages that a relay may forge.
func FuzzMessage2(f *testing.F) {
	v := typical(f)
	id := newIdentity(v.pair(f, "initiator_static"))
	f.Add(v.Message2)
	f.Fuzz(func(t *testing.T, message []byte) {
		i, _, err := newInitiator(id, v.public("responder_static"), v.channel(), v.Payload1, v.initiatorEntropy(t))
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.Finish(message)
		if err == nil != bytes.Equal(message, v.Message2) {
			t.Fatalf("%d bytes: %v", len(message), err)
		}
		if err != nil && !errors.Is(err, ErrHandshake) && !errors.Is(err, ErrInvalidMessage) {
			t.Fatalf("the error is none of ours: %v", err)
		}
	})
}

// FuzzKeyDocument checks that an accepted document has the content that
// encoding/json reads, and that it is unchanged after a round trip.
func FuzzKeyDocument(f *testing.F) {
	f.Add([]byte(typical(f).InitiatorJSON))
	f.Fuzz(func(t *testing.T, text []byte) {
		var key PublicKey
		if err := key.UnmarshalJSON(text); err != nil {
			return
		}
		var document map[string]any
		if err := json.Unmarshal(text, &document); err != nil || len(document) != 3 || document["suite"] != suite {
			t.Fatalf("%s was accepted, which is %v, %v", text, document, err)
		}
		var again PublicKey
		if err := again.UnmarshalJSON(key.AppendJSON(nil)); err != nil || again != key {
			t.Fatalf("it came back as another: %v", err)
		}
	})
}
