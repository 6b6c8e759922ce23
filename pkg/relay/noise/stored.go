package noise

import (
	"crypto/ecdh"
	"crypto/mlkem"
	"encoding/base64"
	"errors"
	"strings"
)

// MaxStored is the size of the largest text that ParseIdentity reads, in bytes.
const MaxStored = 256

// storedPrefix begins the text of an identity and names its format.
const storedPrefix = "codex-client-key-1 "

// errStored does not contain the text, because the text contains a secret.
var errStored = errors.New("this is not a key of a client of rendezvous services: expected one line that begins with " + strings.TrimSpace(storedPrefix))

// Store returns the identity as a line of text for a file that is private to its owner.
// ParseIdentity reads it. It is meant for a client whose principal must be the same
// in the next run of its program (docs/spec/relay.md §7); executors make a new identity.
func (id *Identity) Store() []byte {
	secret := append(id.dh.Bytes(), id.kem.Bytes()...)
	return []byte(storedPrefix + base64.StdEncoding.EncodeToString(secret) + "\n")
}

// ParseIdentity returns the identity that Store encoded.
func ParseIdentity(text []byte) (*Identity, error) {
	if len(text) > MaxStored {
		return nil, errStored
	}
	encoded, isStored := strings.CutPrefix(strings.TrimSuffix(string(text), "\n"), storedPrefix)
	secret, err := base64.StdEncoding.Strict().DecodeString(encoded)
	if !isStored || err != nil || len(secret) != dhSize+mlkem.SeedSize || strings.ContainsAny(encoded, "\r\n") {
		return nil, errStored
	}
	dh, err := ecdh.X25519().NewPrivateKey(secret[:dhSize])
	if err != nil {
		return nil, errStored
	}
	kem, err := mlkem.NewDecapsulationKey768(secret[dhSize:])
	if err != nil {
		return nil, errStored
	}
	return newIdentity(keyPair{dh: dh, kem: kem}), nil
}
