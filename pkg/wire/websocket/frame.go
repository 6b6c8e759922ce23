package websocket

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/binary"
	"slices"
)

// Opcode is the type of a frame (RFC 6455, section 5.2).
type Opcode byte

// The opcodes of messages.
const (
	Text   Opcode = 0x1
	Binary Opcode = 0x2
)

const (
	opContinuation Opcode = 0x0
	opClose        Opcode = 0x8
	opPing         Opcode = 0x9
	opPong         Opcode = 0xA

	finalBit = 1 << 7 // in the first byte: this is the last frame of the message
	maskBit  = 1 << 7 // in the second byte: the payload is masked

	// The sizes of a frame's head without the masking key: for payloads of up to 125 bytes, of
	// up to 65535 bytes, and of more.
	shortHead  = 2
	mediumHead = 4
	longHead   = 10
	// keySize is the size of a masking key.
	keySize = 4
	// maxHead is the size of the largest head of a frame with its key, in bytes.
	maxHead = longHead + keySize
	// maskBlock is how many bytes are masked at a time.
	maskBlock = 1 << 10
)

// firstByte returns the first byte of a frame.
func firstByte(code Opcode, final bool) byte {
	if final {
		return byte(code) | finalBit
	}
	return byte(code)
}

// headSize returns the size of the head of an unmasked frame.
func headSize(payload int) int {
	switch {
	case payload < 126:
		return shortHead
	case payload <= 0xFFFF:
		return mediumHead
	default:
		return longHead
	}
}

// appendHead appends the head of a frame without its key. mask is 0 or maskBit.
func appendHead(b []byte, first, mask byte, payload int) []byte {
	b = append(b, first)
	switch headSize(payload) {
	case shortHead:
		return append(b, mask|byte(payload))
	case mediumHead:
		return binary.BigEndian.AppendUint16(append(b, mask|126), uint16(payload))
	default:
		return binary.BigEndian.AppendUint64(append(b, mask|127), uint64(payload))
	}
}

// appendFrame appends a frame whose payload consists of parts. A client must
// mask its frames.
func appendFrame(b []byte, first byte, masked bool, parts ...[]byte) []byte {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	if masked {
		return appendMasked(b, first, n, parts)
	}
	b = appendHead(b, first, 0, n)
	for _, part := range parts {
		b = append(b, part...)
	}
	return b
}

// appendMasked appends a frame with a payload of n bytes and a new masking key.
func appendMasked(b []byte, first byte, n int, parts [][]byte) []byte {
	b = appendHead(slices.Grow(b, maxHead+n), first, maskBit, n)
	// The key repeated to the size of a block, and once more, so that a block can start at any
	// byte of the key.
	var keys [maskBlock + keySize]byte
	_, _ = rand.Read(keys[:keySize]) // Read never fails
	for filled := keySize; filled < min(len(keys), n+2*keySize); filled *= 2 {
		copy(keys[filled:], keys[:filled])
	}
	b = append(b, keys[:keySize]...)
	at := 0 // position in the payload
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

// sealText makes frames of a text. The text follows start and the mediumHead bytes that Open
// has reserved.
func sealText(b []byte, start int, masked bool) []byte {
	body := len(b) - start - mediumHead
	head := headSize(body)
	switch {
	case masked || body > maxFrame:
		return sealFragments(b, start, masked)
	case head < mediumHead:
		copy(b[start+head:], b[start+mediumHead:])
		b = b[:start+head+body]
	case head > mediumHead:
		b = append(b, "      "...)
		copy(b[start+head:], b[start+mediumHead:start+mediumHead+body])
	}
	appendHead(b[:start], firstByte(Text, true), 0, body)
	return b
}

// sealFragments does the same as sealText, but copies to new memory, in frames of at most
// maxFrame bytes.
func sealFragments(b []byte, start int, masked bool) []byte {
	text := b[start+mediumHead:]
	out := make([]byte, 0, len(b)+(len(text)/maxFrame+1)*maxHead)
	out = append(out, b[:start]...)
	for code := Text; ; code = opContinuation {
		n := min(len(text), maxFrame)
		out = appendFrame(out, firstByte(code, n == len(text)), masked, text[:n])
		if text = text[n:]; len(text) == 0 {
			return out
		}
	}
}

// closeFrame returns a close frame. It clips a reason that is too long.
func closeFrame(code int, reason string, masked bool) []byte {
	if code == closeNoStatus {
		return appendFrame(nil, firstByte(opClose, true), masked)
	}
	payload := append(binary.BigEndian.AppendUint16(nil, uint16(code)), cutReason(reason)...)
	return appendFrame(nil, firstByte(opClose, true), masked, payload)
}
