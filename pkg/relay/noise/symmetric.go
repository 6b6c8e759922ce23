package noise

import (
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/sha256"

	"github.com/flynn/noise"
)

// ciphers makes cipher states with flynn/noise.
var ciphers = noise.NewCipherSuite(noise.DH25519, noise.CipherAESGCM, noise.HashSHA256)

// symmetric is the SymmetricState of the Noise framework: the hash of
// everything that both ends have seen (h), their shared secret (ck), and the
// cipher for the next data.
type symmetric struct {
	redacted
	h, ck  [sha256.Size]byte
	cipher *noise.CipherState // nil until there is a key
}

func newSymmetric() *symmetric {
	h := sha256.Sum256([]byte(protocolName))
	return &symmetric{h: h, ck: h}
}

func (s *symmetric) mixHash(data []byte) {
	d := sha256.New()
	d.Write(s.h[:])
	d.Write(data)
	d.Sum(s.h[:0])
}

// mixKey mixes secret into the chaining key, and wipes it.
func (s *symmetric) mixKey(secret []byte) {
	keys := s.derive(secret, 2)
	s.ck = keys[0]
	s.setKey(keys[1])
	clear(keys)
}

// mixKeyAndHash is mixKey that also marks the transcript.
func (s *symmetric) mixKeyAndHash(secret []byte) {
	keys := s.derive(secret, 3)
	s.ck = keys[0]
	s.mixHash(keys[1][:])
	s.setKey(keys[2])
	clear(keys)
}

// mixDH is mixKey with a Diffie-Hellman secret. A public key of small order is an error, because
// its secret is public.
func (s *symmetric) mixDH(private *ecdh.PrivateKey, public *ecdh.PublicKey) error {
	secret, err := private.ECDH(public)
	if err != nil {
		return err
	}
	s.mixKey(secret)
	return nil
}

func (s *symmetric) setKey(key [sha256.Size]byte) {
	s.cipher = noise.UnsafeNewCipherState(ciphers, key, 0)
}

// derive is HKDF as Noise defines it: RFC 5869 with the chaining key as salt
// and no info. It wipes secret.
func (s *symmetric) derive(secret []byte, n int) [][sha256.Size]byte {
	stream, err := hkdf.Key(sha256.New, secret, s.ck[:], "", n*sha256.Size)
	if err != nil {
		// HKDF fails only for more than 255 keys, or in a mode of Go without X25519, in which no
		// identity can exist.
		panic(err)
	}
	keys := make([][sha256.Size]byte, n)
	for i := range keys {
		copy(keys[i][:], stream[i*sha256.Size:])
	}
	clear(stream)
	clear(secret)
	return keys
}

// encryptAndHash appends data to message. It encrypts the data if there is already a key.
func (s *symmetric) encryptAndHash(message, data []byte) ([]byte, error) {
	start := len(message)
	if s.cipher == nil {
		message = append(message, data...)
	} else {
		var err error
		if message, err = s.cipher.Encrypt(message, s.h[:], data); err != nil {
			return nil, err
		}
	}
	s.mixHash(message[start:])
	return message, nil
}

// decryptAndHash returns the plaintext that encryptAndHash encrypted.
func (s *symmetric) decryptAndHash(data []byte) ([]byte, error) {
	plain := data
	if s.cipher != nil {
		var err error
		if plain, err = s.cipher.Decrypt(nil, s.h[:], data); err != nil {
			return nil, errDecrypt
		}
	}
	s.mixHash(data)
	return plain, nil
}

// split ends the handshake and wipes its state. It returns a cipher state for the initiator's
// records and one for the responder's.
func (s *symmetric) split() (initiator, responder *noise.CipherState) {
	keys := s.derive(nil, 2)
	initiator = noise.UnsafeNewCipherState(ciphers, keys[0], 0)
	responder = noise.UnsafeNewCipherState(ciphers, keys[1], 0)
	clear(keys)
	*s = symmetric{}
	return initiator, responder
}
