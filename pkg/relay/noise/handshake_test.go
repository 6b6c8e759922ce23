package noise

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

var channel = Channel{"env-1", "registration-1", "stream-1"}

func identity(t testing.TB) *Identity {
	t.Helper()
	id, err := GenerateIdentity()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

// sessions returns the two ends of a finished handshake.
func sessions(t testing.TB) (harness, executor *Session) {
	t.Helper()
	id := identity(t)
	i, message, err := NewInitiator(identity(t), id.PublicKey(), channel, []byte("let me in"))
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResponder(id, channel, message)
	if err != nil {
		t.Fatal(err)
	}
	message, executor, err = r.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if harness, err = i.Finish(message); err != nil {
		t.Fatal(err)
	}
	return harness, executor
}

func TestHandshake(t *testing.T) {
	harnessID, executorID := identity(t), identity(t)
	for _, payload := range []string{"", "let me in", strings.Repeat("x", maxPayload)} {
		i, message1, err := NewInitiator(harnessID, executorID.PublicKey(), channel, []byte(payload))
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewResponder(executorID, channel, message1)
		if err != nil {
			t.Fatal(err)
		}
		if r.PeerKey() != harnessID.PublicKey() || string(r.Payload()) != payload {
			t.Errorf("the responder read another key or %q", r.Payload())
		}
		message2, executor, err := r.Finish()
		if err != nil || len(message2) != message2Size {
			t.Fatalf("message 2 has %d bytes, %v", len(message2), err)
		}
		harness, err := i.Finish(message2)
		if err != nil {
			t.Fatal(err)
		}
		exchange(t, harness, executor)
		exchange(t, executor, harness)

		if _, err := i.Finish(message2); !errors.Is(err, ErrHandshake) {
			t.Errorf("the initiator finished twice: %v", err)
		}
		if _, _, err := r.Finish(); !errors.Is(err, ErrHandshake) {
			t.Errorf("the responder finished twice: %v", err)
		}
	}
}

func exchange(t *testing.T, from, to *Session) {
	t.Helper()
	for n := range 3 {
		want := fmt.Sprintf("record %d", n)
		record, err := from.Seal(nil, []byte(want))
		if err != nil || len(record) != len(want)+RecordOverhead {
			t.Fatalf("Seal made %d bytes of %d, %v", len(record), len(want), err)
		}
		got, err := to.Open(nil, record)
		if err != nil || string(got) != want {
			t.Fatalf("Open returned %q, %v, want %q", got, err, want)
		}
	}
}

// TestOtherChannel changes each part of the channel, and the boundary between two parts.
func TestOtherChannel(t *testing.T) {
	id := identity(t)
	_, message, err := NewInitiator(identity(t), id.PublicKey(), channel, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, other := range []Channel{
		{"env-2", "registration-1", "stream-1"},
		{"env-1", "registration-2", "stream-1"},
		{"env-1", "registration-1", "stream-2"},
		{"env-1r", "egistration-1", "stream-1"},
	} {
		_, err := NewResponder(id, other, message)
		if want := "Noise channel handshake failed: Cipher error: Decrypt error"; err == nil || err.Error() != want {
			t.Errorf("%v: %v, want %s", other, err, want)
		}
	}
	if _, err := NewResponder(identity(t), channel, message); !errors.Is(err, ErrHandshake) {
		t.Errorf("another executor read message 1: %v", err)
	}
	if _, err := NewResponder(id, channel, message); err != nil {
		t.Errorf("the right executor: %v", err)
	}
}

func TestMessage1Limits(t *testing.T) {
	id := identity(t)
	_, _, err := NewInitiator(id, id.PublicKey(), channel, make([]byte, maxPayload+1))
	wantError(t, "payload", err, ErrInvalidMessage, "invalid Noise channel message: handshake payload is too large")
	_, err = NewResponder(id, channel, make([]byte, message1Overhead-1))
	wantError(t, "short", err, ErrHandshake, "Noise channel handshake failed: Received invalid message")
	_, err = NewResponder(id, channel, make([]byte, maxNoise+1))
	wantError(t, "long", err, ErrInvalidMessage, "invalid Noise channel message: handshake request is too large")
	for _, n := range []int{message1Overhead, maxNoise} {
		_, err = NewResponder(id, channel, make([]byte, n))
		wantError(t, fmt.Sprintf("zeros, %d", n), err, ErrHandshake, "Noise channel handshake failed: ")
	}
}

func TestMessage2(t *testing.T) {
	id := identity(t)
	for _, tt := range []struct {
		name   string
		damage func([]byte) []byte
		is     error
		text   string
	}{
		{"short", func(m []byte) []byte { return m[:len(m)-1] }, ErrHandshake, "Noise channel handshake failed: Received invalid message"},
		{"empty", func([]byte) []byte { return nil }, ErrHandshake, "Noise channel handshake failed: Received invalid message"},
		{"long", func(m []byte) []byte { return append(m, 0) }, ErrHandshake, "Noise channel handshake failed: Cipher error: Decrypt error"},
		{"huge", func([]byte) []byte { return make([]byte, maxNoise+1) }, ErrInvalidMessage, "invalid Noise channel message: handshake response is too large"},
		{"first encapsulation", flip(0), ErrHandshake, "Noise channel handshake failed: Cipher error: Decrypt error"},
		{"second encapsulation", flip(kemCipherSize), ErrHandshake, "Noise channel handshake failed: Cipher error: Decrypt error"},
		{"ephemeral X25519 key", flip(2192), ErrHandshake, "Noise channel handshake failed: Cipher error: Decrypt error"},
		{"ephemeral ML-KEM key", flip(2224), ErrHandshake, "Noise channel handshake failed: Cipher error: Decrypt error"},
		{"tag", flip(message2Size - 1), ErrHandshake, "Noise channel handshake failed: Cipher error: Decrypt error"},
		{"ephemeral key of small order", func(m []byte) []byte { clear(m[2192:2224]); return m }, ErrHandshake, "Noise channel handshake failed: "},
	} {
		i, message, err := NewInitiator(identity(t), id.PublicKey(), channel, nil)
		if err != nil {
			t.Fatal(err)
		}
		r, err := NewResponder(id, channel, message)
		if err != nil {
			t.Fatal(err)
		}
		message, _, err = r.Finish()
		if err != nil {
			t.Fatal(err)
		}
		_, err = i.Finish(tt.damage(message))
		wantError(t, tt.name, err, tt.is, tt.text)
		if _, err := i.Finish(message); err == nil {
			t.Errorf("%s: the handshake went on after it had failed", tt.name)
		}
	}
}

func flip(at int) func([]byte) []byte {
	return func(m []byte) []byte { m[at] ^= 0x10; return m }
}

// TestPayloadInMessage2: a responder sends a payload where none is allowed.
func TestPayloadInMessage2(t *testing.T) {
	id := identity(t)
	i, message, err := NewInitiator(identity(t), id.PublicKey(), channel, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResponder(id, channel, message)
	if err != nil {
		t.Fatal(err)
	}
	if message, err = r.writeMessage2(r.state, []byte("hello")); err != nil {
		t.Fatal(err)
	}
	_, err = i.Finish(message)
	wantError(t, "payload", err, ErrInvalidMessage, "invalid Noise channel message: handshake response payload must be empty")
}

// TestUnusableKeys uses invalid keys that have the right length.
func TestUnusableKeys(t *testing.T) {
	id := identity(t)
	smallOrder, badKEM := id.PublicKey(), id.PublicKey()
	clear(smallOrder.dh[:])
	for n := range badKEM.kem[:3] {
		badKEM.kem[n] = 0xff // coefficients beyond the modulus
	}
	for name, key := range map[string]PublicKey{"small order": smallOrder, "no ML-KEM key": badKEM} {
		if _, _, err := NewInitiator(id, key, channel, nil); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: NewInitiator: %v", name, err)
		}
		// The initiator uses this key as its own.
		forged := *identity(t)
		forged.public = key
		_, message, err := NewInitiator(&forged, id.PublicKey(), channel, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := NewResponder(id, channel, message); !errors.Is(err, ErrHandshake) {
			t.Errorf("%s: NewResponder: %v", name, err)
		}
	}
}

func TestNothingPrintsKeys(t *testing.T) {
	id := identity(t)
	i, message, err := NewInitiator(id, id.PublicKey(), channel, nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := NewResponder(id, channel, message)
	if err != nil {
		t.Fatal(err)
	}
	harness, _ := sessions(t)
	for _, v := range []any{id, *id, id.keyPair, id.PublicKey(), i, r, r.state, *r.state, harness} {
		var log bytes.Buffer
		slog.New(slog.NewJSONHandler(&log, nil)).Info("x", "v", v)
		if !strings.Contains(log.String(), `"v":"`+suite+`"`) {
			t.Errorf("%T is logged as %s", v, log.String())
		}
		if s, ok := v.(interface {
			fmt.Stringer
			fmt.GoStringer
		}); !ok || s.String() != suite || s.GoString() != suite {
			t.Errorf("%T has another name", v)
		}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			if got := fmt.Sprintf(verb, v); got != suite {
				t.Errorf("%T prints with %s as %s", v, verb, got)
			}
		}
	}
}

func TestSplitWipes(t *testing.T) {
	s := newSymmetric()
	s.split()
	if *s != (symmetric{}) {
		t.Error("the state of a finished handshake is kept")
	}
	secret := bytes.Repeat([]byte{7}, 32)
	newSymmetric().mixKey(secret)
	if !bytes.Equal(secret, make([]byte, 32)) {
		t.Error("a secret that was mixed in is kept")
	}
}

func wantError(t *testing.T, name string, err, is error, text string) {
	t.Helper()
	if !errors.Is(err, is) || !strings.HasPrefix(err.Error(), text) || !strings.HasSuffix(text, " ") && err.Error() != text {
		t.Errorf("%s: %v, want %s", name, err, text)
	}
}

func BenchmarkHandshake(b *testing.B) {
	harness, executor := identity(b), identity(b)
	b.ReportAllocs()
	for b.Loop() {
		i, message, err := NewInitiator(harness, executor.PublicKey(), channel, nil)
		if err != nil {
			b.Fatal(err)
		}
		r, err := NewResponder(executor, channel, message)
		if err != nil {
			b.Fatal(err)
		}
		if message, _, err = r.Finish(); err != nil {
			b.Fatal(err)
		}
		if _, err := i.Finish(message); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkMessage1 measures the work that a stranger can cause at an executor.
func BenchmarkMessage1(b *testing.B) {
	executor := identity(b)
	_, message, err := NewInitiator(identity(b), executor.PublicKey(), channel, nil)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := NewResponder(executor, channel, message); err != nil {
			b.Fatal(err)
		}
	}
}
