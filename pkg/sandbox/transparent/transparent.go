// Package transparent encodes the messages with which the launcher passes connections and DNS queries that
// bypass the network proxies to the server (docs/spec/network.md §5). Each message is a packet with one
// descriptor. The launcher sends, and pkg/sandbox/egress receives. It is a separate package because the
// launcher must not link egress, which imports net/http and crypto/tls.
package transparent

import (
	"encoding/binary"
	"errors"
	"fmt"
)

// Kind is the kind of a message's descriptor.
type Kind byte

const (
	// Names is a UDP socket of the sandbox's network that receives every DNS query,
	// together with the address to which it was sent.
	Names Kind = 1
	// Connection is the far end of a connection that the command has made.
	Connection Kind = 2
)

// Message describes its descriptor.
type Message struct {
	Kind Kind
	// Address and Port are the requested destination of a Connection. IPv4
	// addresses are IPv4-mapped IPv6 addresses.
	Address [16]byte
	Port    uint16
}

// Size is the number of bytes of an encoded message.
const Size = 1 + 16 + 2

// Append appends the encoded message.
func (m Message) Append(b []byte) []byte {
	b = append(append(b, byte(m.Kind)), m.Address[:]...)
	return binary.BigEndian.AppendUint16(b, m.Port)
}

// errSize is the error of a message that is too short or too long.
var errSize = errors.New("a message about a connection has another size")

// Decode decodes a message.
func Decode(b []byte) (m Message, err error) {
	if len(b) != Size {
		return m, errSize
	}
	m.Kind, m.Address, m.Port = Kind(b[0]), [16]byte(b[1:17]), binary.BigEndian.Uint16(b[17:])
	if m.Kind != Names && m.Kind != Connection {
		return m, fmt.Errorf("a message about a connection has the unknown kind %d", m.Kind)
	}
	return m, nil
}
