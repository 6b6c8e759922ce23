package noise

import (
	"crypto/mlkem"
	"encoding/binary"
)

// Channel is the context to which a handshake is bound. If the two ends use different channels, the
// handshake fails. The parts are texts of any length.
type Channel struct {
	EnvironmentID          string
	ExecutorRegistrationID string // of the registration whose relay is used
	StreamID               string
}

// prologueVersion is the beginning of every prologue.
const prologueVersion = "codex-exec-server-relay-noise/v1"

func (c Channel) prologue() []byte {
	var b []byte
	for _, part := range []string{prologueVersion, c.EnvironmentID, c.ExecutorRegistrationID, c.StreamID} {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return b
}

// start begins a transcript with the data that both ends know before the first message.
func start(channel Channel, responder *PublicKey) *symmetric {
	s := newSymmetric()
	s.mixHash(channel.prologue())
	s.mixHash(responder.dh[:])
	s.mixHash(responder.kem[:])
	return s
}

// entropy is the random input of a handshake. Tests replay recorded values. Code outside of the
// package cannot set it.
type entropy interface {
	ephemeral() (keyPair, error)
	encapsulate(*mlkem.EncapsulationKey768) (secret, ciphertext []byte)
}

// system is the entropy of the system.
type system struct{}

func (system) ephemeral() (keyPair, error) { return generateKeyPair() }

func (system) encapsulate(key *mlkem.EncapsulationKey768) (secret, ciphertext []byte) {
	return key.Encapsulate()
}

// cut removes the next n bytes from a message whose length was checked, and returns them.
func cut(message *[]byte, n int) []byte {
	part := (*message)[:n:n]
	*message = (*message)[n:]
	return part
}
