package noise

import "crypto/mlkem"

// The sizes that Codex CLI prescribes; other values do not interoperate.
const (
	// MaxChunk is the most plaintext of one record of a message, in bytes.
	MaxChunk = 60 << 10
	// RecordOverhead is how many bytes sealing adds to a record: the tag.
	RecordOverhead = tagSize
	// MaxMessage is the longest message that the two ends exchange, in bytes.
	MaxMessage = 64 << 20

	// maxNoise is the longest message of a handshake and the longest record that the Noise
	// framework allows.
	maxNoise = 1<<16 - 1
	// maxPayload is the size of the longest payload of message 1.
	maxPayload = maxNoise - message1Overhead
	// trusted is the longest announced length for which memory is allocated before the bytes
	// arrive. With this value most messages of several records are not copied.
	trusted = 128 << 10
	// headerSize is the size of the length that precedes each message.
	headerSize = 4
)

// These are the sizes of the parts of the handshake, in bytes.
const (
	tagSize       = 16
	dhSize        = 32
	kemKeySize    = mlkem.EncapsulationKeySize768
	kemCipherSize = mlkem.CiphertextSize768

	// message1Overhead is the length of message 1 without its payload:
	// encapsulation, ephemeral keys, two encrypted static keys, tag.
	message1Overhead = kemCipherSize + dhSize + kemKeySize + dhSize + tagSize + kemKeySize + tagSize + tagSize
	// message2Size is the length of message 2: two encapsulations, of which
	// the second is encrypted, ephemeral keys, the tag of the empty payload.
	message2Size = kemCipherSize + kemCipherSize + tagSize + dhSize + kemKeySize + tagSize
)
