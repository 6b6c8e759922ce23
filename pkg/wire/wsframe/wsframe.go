// Package wsframe writes the frames of websockets (RFC 6455, section 5.2), so
// that several can go out in one system call, and a payload is copied once.
//
// A program may write frames to a connection while a websocket library reads the
// connection and answers pings, if each Write holds whole frames.
package wsframe

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"slices"
)

// Opcode is the type of a frame.
type Opcode byte

// The opcodes of frames that are no fragments.
const (
	Text   Opcode = 0x1
	Binary Opcode = 0x2
	Close  Opcode = 0x8
	Ping   Opcode = 0x9
	Pong   Opcode = 0xA
)

const (
	final  = 1 << 7
	masked = 1 << 7

	// keySize is that of a masking key.
	keySize = 4
	// MaxHead is the most that a frame has beside its payload, in bytes.
	MaxHead = 2 + 8 + keySize
	// maskBlock is how much is masked at a time.
	maskBlock = 1 << 10
)

// Append appends a frame as a server sends it. The payload is that of parts,
// one after the other; a control frame's has at most 125 bytes.
func Append(b []byte, code Opcode, parts ...[]byte) []byte {
	b = appendHead(b, code, 0, size(parts))
	for _, part := range parts {
		b = append(b, part...)
	}
	return b
}

// AppendHead appends the head of a server's frame with a payload of n bytes.
func AppendHead(b []byte, code Opcode, n int) []byte { return appendHead(b, code, 0, n) }

// AppendMasked appends a frame as a client sends it, with a new masking key.
func AppendMasked(b []byte, code Opcode, parts ...[]byte) []byte {
	n := size(parts)
	b = appendHead(slices.Grow(b, MaxHead+n), code, masked, n)
	// The key again and again, and once more, so that it can begin anywhere.
	var keys [maskBlock + keySize]byte
	_, _ = rand.Read(keys[:keySize]) // it never fails
	for filled := keySize; filled < len(keys); filled *= 2 {
		copy(keys[filled:], keys[:filled])
	}
	b = append(b, keys[:keySize]...)
	at := 0 // in the payload
	for _, part := range parts {
		for len(part) > 0 {
			n := min(len(part), maskBlock)
			start := len(b)
			b = b[:start+n]
			subtle.XORBytes(b[start:], part[:n], keys[at%keySize:])
			part = part[n:]
			at += n
		}
	}
	return b
}

func size(parts [][]byte) int {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	return n
}

func appendHead(b []byte, code Opcode, mask byte, payload int) []byte {
	b = append(b, final|byte(code))
	switch {
	case payload < 126:
		return append(b, mask|byte(payload))
	case payload <= 0xFFFF:
		return binary.BigEndian.AppendUint16(append(b, mask|126), uint16(payload))
	default:
		return binary.BigEndian.AppendUint64(append(b, mask|127), uint64(payload))
	}
}
