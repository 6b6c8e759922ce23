package noise

import (
	"crypto/ecdh"
	"crypto/mlkem"
	"crypto/rand"
	"fmt"
)

// Identity is the static key pair of one end: of an executor for the life of its process, or of a
// harness for the life of an environment. It is safe for concurrent use.
//
// An Identity cannot be wiped, because the standard library gives no access to the memory of
// private keys. The keys remain in memory as long as the value is referenced.
type Identity struct {
	redacted
	keyPair
	public PublicKey
}

// keyPair is an X25519 key pair and an ML-KEM key pair, static or ephemeral.
type keyPair struct {
	redacted
	dh  *ecdh.PrivateKey
	kem *mlkem.DecapsulationKey768
}

// GenerateIdentity makes a new identity from the system's randomness.
func GenerateIdentity() (*Identity, error) {
	pair, err := generateKeyPair()
	if err != nil {
		return nil, fmt.Errorf("identity of a Noise channel: %w", err)
	}
	return newIdentity(pair), nil
}

func newIdentity(pair keyPair) *Identity { return &Identity{keyPair: pair, public: pair.public()} }

// PublicKey returns the public part.
func (id *Identity) PublicKey() PublicKey { return id.public }

func generateKeyPair() (keyPair, error) {
	dh, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return keyPair{}, err
	}
	kem, err := mlkem.GenerateKey768()
	if err != nil {
		return keyPair{}, err
	}
	return keyPair{dh: dh, kem: kem}, nil
}

func (p keyPair) public() PublicKey {
	var key PublicKey
	copy(key.dh[:], p.dh.PublicKey().Bytes())
	copy(key.kem[:], p.kem.EncapsulationKey().Bytes())
	return key
}
