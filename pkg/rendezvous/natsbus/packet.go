package natsbus

import (
	"encoding/binary"
	"errors"
	"fmt"
	"unicode/utf8"

	"codex.internal/pkg/relay/frame"
	"codex.internal/pkg/rendezvous"
)

// The protocol of the nodes. A packet is the payload of one NATS message.
//
// Subjects (node.go):
//
//	…address.ADDRESS    requests to the node that has bound an address; also broken, while that node is unknown
//	…call.NODE          requests to a node
//	…node.NODE          packets to a node, without an answer
//	…all                packets to all nodes
//
// Flow of a line between address a at node A and address b at node B:
//
//	A  --request to address b: open(line, a, b, first message)-->  B
//	A  <--accept(generation of b) or refuse------------------------  B
//	A  <--data(line, number, message)----------------------------->  B    numbered per direction; the one in open is A's first
//	A  <--ack(line, received, done ...)--------------------------->  B
//	A  <--again(line, number of the last in order)----------------->  B    after a gap: retransmit what follows
//	A  <--probe(line, number of the last sent)-------------------->  B    no acknowledgement came for probeTime
//	A  <--broken(line)-------------------------------------------->  B    closes the line
//
// Besides lines, every node sends beat to all, and bye when it ends; claim to all when it
// has bound an address, and from time to time; and asks others with ping (is the address
// bound?), spend (is the nonce valid and unused?) and question (the status page).
//
// A packet has these bytes: version (1), kind (1), the id of the sending node, and then the fields
// of the kind in the order below. A text is its length as a uvarint and its bytes. A number is a
// uvarint. A line is 16 bytes. A message is its kind (1), the kind of its frame (1), the texts
// token, identity and stream, and its data up to the end of the packet. Acks are (line, received,
// done) up to the end of the packet.

// packetKind is the kind of a packet. The comments name its fields.
type packetKind uint8

const (
	packetOpen     packetKind = iota + 1 // request: line, text from, text to, message
	packetAccept                         // answer to open, ping and spend: number (the generation of the address, or 0)
	packetRefuse                         // answer: the address is not bound, the nonce is not valid
	packetPing                           // request
	packetData                           // line, number, message
	packetAck                            // acks
	packetProbe                          // line, number
	packetBroken                         // line
	packetSpend                          // request: text to (the nonce), number (Unix seconds)
	packetClaim                          // text to (the address), number (its generation)
	packetBeat                           //
	packetBye                            //
	packetAgain                          // line, number
	packetQuestion                       // request: text to (the question)
	packetAnswer                         // answer to question: data up to the end
	packetKinds                          // the number of kinds, plus one
)

// lineID identifies a line. It is random.
type lineID [16]byte

// packet is one packet between nodes, decoded.
type packet struct {
	kind     packetKind
	node     string // the sender
	line     lineID
	number   uint64
	from, to string
	message  rendezvous.Message // From is the message's sender
	acks     []ack
	data     []byte
}

// ack is how many messages of a line a node has received in order, and how many of them it has
// passed to their reader, since the line was opened.
type ack struct {
	line           lineID
	received, done uint64
}

// errPacket means that a NATS message on a subject of the service is not a packet.
var errPacket = errors.New("not a packet of a known version and kind")

// packetVersion is the first byte of a packet.
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

// decodePacket decodes a packet. Its Data is a part of b. The error is an errPacket.
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

// reader reads fields from the front of a packet.
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

// number reads a number. A number with redundant bytes is an error, so that a packet has only one
// encoding.
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

// message reads a message, which is the end of the packet. A kind of message that a node sends only
// to itself is an error.
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
	// The relay may have to reset the stream, so its id must be one that can be sent.
	if m.Kind == rendezvous.Frame && (!frame.Sendable(m.Stream) || !utf8.ValidString(m.Stream)) {
		r.failed = true
	}
	return m
}
