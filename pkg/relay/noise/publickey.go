package noise

import (
	"crypto/ecdh"
	"crypto/mlkem"
	"errors"
	"fmt"

	"codex.internal/pkg/wire/b64"
	"codex.internal/pkg/wire/jsonwire"
)

// PublicKey is the public half of an Identity. It can be compared with == and
// is a valid map key; it contains no secret, so comparisons need not take
// constant time. The zero PublicKey is not a valid key.
//
// Its JSON is the document that registries exchange. A document with a key of the right length is
// accepted even if the key is unusable; the handshake then fails.
type PublicKey struct {
	redacted
	dh  [dhSize]byte
	kem [kemKeySize]byte
}

// The members of a key document, in the order they are written.
const (
	memberSuite = "suite"
	memberDH    = "x25519_public_key"
	memberKEM   = "mlkem768_public_key"
)

// MarshalJSON returns the key document.
func (k PublicKey) MarshalJSON() ([]byte, error) { return k.AppendJSON(nil), nil }

// AppendJSON appends the key document.
func (k PublicKey) AppendJSON(b []byte) []byte {
	b = append(b, `{"`+memberSuite+`":"`+suite+`","`+memberDH+`":`...)
	b = b64.AppendString(b, k.dh[:])
	b = append(b, `,"`+memberKEM+`":`...)
	b = b64.AppendString(b, k.kem[:])
	return append(b, '}')
}

// UnmarshalJSON reads a key document. It must have exactly the three members, in any order and with
// valid values. Otherwise the error is ErrPublicKey, and the key does not change.
func (k *PublicKey) UnmarshalJSON(text []byte) error {
	var named, dh, kem string
	r := jsonwire.NewReader(text)
	err := r.Struct("a Noise channel public key", jsonwire.FieldsFunc(func(c *jsonwire.Codec) {
		c.NoOthers()
		c.Text(memberSuite, jsonwire.Need, &named)
		c.Text(memberDH, jsonwire.Need, &dh)
		c.Text(memberKEM, jsonwire.Need, &kem)
	}))
	if err == nil {
		err = r.End()
	}
	if err != nil {
		return fmt.Errorf("public key of a Noise channel: %w", err)
	}
	if named != suite {
		return fmt.Errorf("%w: unsupported Noise channel suite", ErrPublicKey)
	}
	var key PublicKey
	if err := decodeKey(key.dh[:], dh, "X25519"); err != nil {
		return err
	}
	if err := decodeKey(key.kem[:], kem, "ML-KEM-768"); err != nil {
		return err
	}
	*k = key
	return nil
}

// decodeKey decodes strict base64 into key. The text must fill key exactly.
func decodeKey(key []byte, text, algorithm string) error {
	data, err := b64.DecodeInPlace([]byte(text))
	if err != nil {
		return fmt.Errorf("%w: invalid %s public key", ErrPublicKey, algorithm)
	}
	if len(data) != len(key) {
		return fmt.Errorf("%w: invalid %s public key length", ErrPublicKey, algorithm)
	}
	copy(key, data)
	return nil
}

// parse returns the key in usable forms. Codex CLI accepts malformed encapsulation keys (FIPS 203,
// 7.2) and Go does not. A peer with such a key could not decrypt anything.
func (k *PublicKey) parse() (*ecdh.PublicKey, *mlkem.EncapsulationKey768, error) {
	dh, err := ecdh.X25519().NewPublicKey(k.dh[:])
	if err != nil {
		return nil, nil, fmt.Errorf("X25519 public key: %w", err)
	}
	kem, err := mlkem.NewEncapsulationKey768(k.kem[:])
	if err != nil {
		return nil, nil, errors.New("ML-KEM-768 public key is not valid")
	}
	return dh, kem, nil
}
