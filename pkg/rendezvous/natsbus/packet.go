package natsbus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/rendezvous"
)

// packetKind is what a packet is. The comment says which fields it has besides
// node.
type packetKind uint8

const (
	packetOpen     packetKind = iota + 1 // line, from, to, message: request to an address
	packetAccept                         // number (a generation): its answer, and that to packetPing
	packetRefuse                         // its other answer
	packetPing                           // request to an address: is somebody there?
	packetData                           // line, number, message: the next message of a line
	packetAck                            // acks
	packetProbe                          // line, number: of the last message
	packetBroken                         // line: it has ended
	packetSpend                          // to, number (of seconds): request to a node that has made a nonce
	packetClaim                          // to, number (a generation): the node has an address
	packetBeat                           // the node lives
	packetBye                            // the node ends
	packetAgain                          // line, number: of the last message received in order; retransmit the next ones
	packetQuestion                       // to (a question): request to a node for what it knows
	packetAnswer                         // data: its answer
	packetKinds                          // how many there are, and one
)

// lineID names a line. It is random.
type lineID [16]byte

// packet is what nodes send each other.
type packet struct {
	kind     packetKind
	node     string // that has sent it
	line     lineID
	number   uint64
	from, to string
	message  rendezvous.Message // From is that of the line
	acks     []ack
	data     []byte
}

// ack is how many messages of a line a node has received in order, and how many of
// them it has handed to their reader, since the line was opened.
type ack struct {
	line           lineID
	received, done uint64
}

// errPacket says that something on a subject of the service is not a packet.
var errPacket = errors.New("not a packet that this program knows")

// packetVersion is the first byte.
const packetVersion = 1

// append encodes the packet.
func (p *packet) append(b []byte) []byte {
	b = append(b, packetVersion, byte(p.kind))
	b = appendText(b, p.node)
	switch p.kind {
	case packetOpen:
		b = append(b, p.line[:]...)
		b = appendText(appendText(b, p.from), p.to)
		b = appendMessage(b, &p.message)
	case packetData:
		b = binary.AppendUvarint(append(b, p.line[:]...), p.number)
		b = appendMessage(b, &p.message)
	case packetProbe, packetAgain:
		b = binary.AppendUvarint(append(b, p.line[:]...), p.number)
	case packetBroken:
		b = append(b, p.line[:]...)
	case packetClaim, packetSpend:
		b = binary.AppendUvarint(appendText(b, p.to), p.number)
	case packetQuestion:
		b = appendText(b, p.to)
	case packetAnswer:
		b = append(b, p.data...)
	case packetAccept:
		b = binary.AppendUvarint(b, p.number)
	case packetAck:
		for _, a := range p.acks {
			b = append(b, a.line[:]...)
			b = binary.AppendUvarint(binary.AppendUvarint(b, a.received), a.done)
		}
	}
	return b
}

func appendText(b []byte, text string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(text))), text...)
}

func appendMessage(b []byte, m *rendezvous.Message) []byte {
	b = append(b, byte(m.Kind), byte(m.Frame))
	b = appendText(appendText(appendText(b, m.Token), m.Identity), m.Stream)
	return append(b, m.Data...)
}

// decodePacket reads a packet, the Data of which is part of b. The error is an
// errPacket.
func decodePacket(b []byte) (packet, error) {
	if len(b) < 2 || b[0] != packetVersion || b[1] == 0 || packetKind(b[1]) >= packetKinds {
		return packet{}, fmt.Errorf("%w: it begins with %x", errPacket, b[:min(len(b), 2)])
	}
	p := packet{kind: packetKind(b[1])}
	r := reader{rest: b[2:]}
	p.node = r.text()
	switch p.kind {
	case packetOpen:
		p.line = r.line()
		p.from, p.to = r.text(), r.text()
		p.message = r.message()
	case packetData:
		p.line, p.number, p.message = r.line(), r.number(), r.message()
	case packetProbe, packetAgain:
		p.line, p.number = r.line(), r.number()
	case packetBroken:
		p.line = r.line()
	case packetClaim, packetSpend:
		p.to, p.number = r.text(), r.number()
	case packetQuestion:
		p.to = r.text()
	case packetAnswer:
		p.data = r.take(uint64(len(r.rest)))
	case packetAccept:
		p.number = r.number()
	case packetAck:
		for len(r.rest) > 0 && !r.failed {
			p.acks = append(p.acks, ack{r.line(), r.number(), r.number()})
		}
	}
	if r.failed || len(r.rest) > 0 || p.node == "" {
		return packet{}, fmt.Errorf("%w: kind %d of %d bytes", errPacket, p.kind, len(b))
	}
	p.message.From = p.from
	return p, nil
}

// reader takes fields from the front of a packet.
type reader struct {
	rest   []byte
	failed bool
}

// take returns the next n bytes, or nil if there are fewer.
func (r *reader) take(n uint64) []byte {
	if n > uint64(len(r.rest)) {
		r.failed, r.rest = true, nil
		return nil
	}
	b := r.rest[:n:n]
	r.rest = r.rest[n:]
	return b
}

// number reads a number. Numbers with bytes that say nothing are failures, so
// that there is one encoding of a packet.
func (r *reader) number() uint64 {
	v, n := binary.Uvarint(r.rest)
	if n <= 0 || n > 1 && r.rest[n-1] == 0 {
		r.failed, r.rest = true, nil
		return 0
	}
	r.rest = r.rest[n:]
	return v
}

func (r *reader) text() string { return string(r.take(r.number())) }

func (r *reader) line() (id lineID) {
	copy(id[:], r.take(uint64(len(id))))
	return id
}

// message reads a message, which ends the packet. A message of a kind that nodes only
// send to themselves is a failure.
func (r *reader) message() rendezvous.Message {
	var m rendezvous.Message
	if head := r.take(2); head != nil {
		m.Kind, m.Frame = rendezvous.MessageKind(head[0]), frame.Kind(head[1])
	}
	m.Token, m.Identity, m.Stream = r.text(), r.text(), r.text()
	m.Data = r.take(uint64(len(r.rest)))
	if m.Kind < rendezvous.Frame || m.Kind > rendezvous.Gone || len(m.Data) > rendezvous.MaxFrame {
		r.failed = true
	}
	// A stream may have to be reset, which takes an id that can be sent.
	if m.Kind == rendezvous.Frame && (!frame.Sendable(m.Stream) || !utf8.ValidString(m.Stream)) {
		r.failed = true
	}
	return m
}
