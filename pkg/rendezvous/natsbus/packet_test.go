package natsbus

import (
	"bytes"
	"errors"
	"reflect"
	"strings"
	"testing"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/rendezvous"
)

func containsSecret(text string) bool { return strings.Contains(text, "secret") }

// packets has one of each kind.
var packets = []packet{
	{kind: packetOpen, node: "n", line: lineID{1, 15: 2}, from: "h", to: "x", message: rendezvous.Message{Kind: rendezvous.Joined, From: "h", Token: "t", Identity: "i"}},
	{kind: packetAccept, node: "n", number: 7},
	{kind: packetRefuse, node: "n"},
	{kind: packetPing, node: "n"},
	{kind: packetData, node: "n", line: lineID{3}, number: 300, message: rendezvous.Message{Kind: rendezvous.Frame, Stream: "s", Frame: frame.Data, Data: []byte("data")}},
	{kind: packetAck, node: "n", acks: []ack{{lineID{4}, 5, 4}, {lineID{5}, 1 << 40, 0}}},
	{kind: packetProbe, node: "n", line: lineID{6}, number: 9},
	{kind: packetBroken, node: "n", line: lineID{7}},
	{kind: packetSpend, node: "n", to: "n-nonce", number: 1_800_000_000},
	{kind: packetClaim, node: "n", to: "x", number: 1},
	{kind: packetBeat, node: "n"},
	{kind: packetBye, node: "n"},
	{kind: packetAgain, node: "n", line: lineID{8}, number: 300},
	{kind: packetQuestion, node: "n", to: "env"},
	{kind: packetAnswer, node: "n", data: []byte("{}")},
}

// plain returns a packet without the fields that are not sent or cannot be compared.
func plain(p packet) packet {
	p.message.Done = nil
	if len(p.message.Data) == 0 {
		p.message.Data = nil
	}
	return p
}

func TestPackets(t *testing.T) {
	if len(packets) != int(packetKinds)-1 {
		t.Fatalf("%d of %d kinds", len(packets), packetKinds-1)
	}
	for _, p := range packets {
		b := p.append(nil)
		got, err := decodePacket(b)
		if err != nil || !reflect.DeepEqual(plain(got), p) {
			t.Errorf("%+v, %v; want %+v", got, err, p)
		}
		for n := range len(b) {
			got, err := decodePacket(b[:n])
			// Data extends to the end of the packet, so a truncated packet is valid; so does a list
			// of acknowledgements.
			if err == nil && p.kind != packetData && p.kind != packetAck && p.kind != packetAnswer {
				t.Errorf("kind %d cut off at %d: %+v", p.kind, n, got)
			}
			if err != nil && !errors.Is(err, errPacket) {
				t.Errorf("got error %v, want %v", err, errPacket)
			}
		}
	}
}

func TestLargestPacket(t *testing.T) {
	name := strings.Repeat("n", 128)
	p := packet{kind: packetOpen, node: name, from: name, to: name, message: rendezvous.Message{
		Kind: rendezvous.Frame, Token: name, Identity: name, Stream: name, Data: bytes.Repeat([]byte{'x'}, rendezvous.MaxFrame),
	}}
	b := p.append(nil)
	if len(b) > rendezvous.MaxFrame+packetOverhead {
		t.Errorf("%d bytes", len(b))
	}
	if _, err := decodePacket(b); err != nil {
		t.Error(err)
	}
	if _, err := decodePacket(append(b, 'x')); !errors.Is(err, errPacket) {
		t.Errorf("a byte too much: %v", err)
	}
}

// TestStreamsOfPackets: an invalid stream id from another node must not make a node panic.
func TestStreamsOfPackets(t *testing.T) {
	for stream, ok := range map[string]bool{
		"s": true, strings.Repeat("s", frame.MaxStreamID): true,
		"": false, " s": false, "\xff": false, strings.Repeat("s", frame.MaxStreamID+1): false,
	} {
		p := packet{kind: packetData, node: "n", message: rendezvous.Message{Kind: rendezvous.Frame, Stream: stream}}
		if _, err := decodePacket(p.append(nil)); (err == nil) != ok {
			t.Errorf("%q: got error %v, want success: %v", stream, err, ok)
		}
	}
}

// FuzzDecodePacket checks that an accepted packet has only one encoding, and
// that its fields refer to its bytes.
func FuzzDecodePacket(f *testing.F) {
	for _, p := range packets {
		f.Add(p.append(nil))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		p, err := decodePacket(b)
		if err != nil {
			if !errors.Is(err, errPacket) {
				t.Fatal(err)
			}
			return
		}
		if again := p.append(nil); !bytes.Equal(again, b) {
			t.Fatalf("%x is encoded as %x", b, again)
		}
	})
}
