package wycheproof

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/mlkem"
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"testing"

	"github.com/flynn/noise"
)

// TestX25519 computes the shared secret at both ends of a handshake. A public key of small order
// must be an error, because everybody knows the resulting secret.
func TestX25519(t *testing.T) {
	type group struct {
		Tests []struct {
			verdict
			Public, Private, Shared octets
		}
	}
	seen := 0
	for _, g := range read[group](t, "x25519_test.json") {
		for _, v := range g.Tests {
			seen++
			private, err := ecdh.X25519().NewPrivateKey(v.Private)
			if err != nil {
				t.Fatalf("%d: got error %v, want no error", v.ID, err)
			}
			public, err := ecdh.X25519().NewPublicKey(v.Public)
			if err != nil {
				t.Fatalf("%d: got error %v, want no error", v.ID, err)
			}
			secret, err := private.ECDH(public)
			switch zero := slices.Contains(v.Flags, "ZeroSharedSecret"); {
			case zero && err == nil:
				t.Errorf("%d, %s: a public key of small order was taken", v.ID, v.Comment)
			case !zero && (err != nil || !bytes.Equal(secret, v.Shared)):
				t.Errorf("%d, %s: %x, %v; want %x", v.ID, v.Comment, secret, err, v.Shared)
			}
		}
	}
	enough(t, seen, 500)
}

// TestMLKEM decapsulates with a key that is made from a seed, as identities are stored.
func TestMLKEM(t *testing.T) {
	type group struct {
		Tests []struct {
			verdict
			Seed, EK, C, K octets
		}
	}
	seen := 0
	for _, g := range read[group](t, "mlkem_768_test.json") {
		for _, v := range g.Tests {
			seen++
			key, err := mlkem.NewDecapsulationKey768(v.Seed)
			if err != nil {
				if v.Result == "valid" {
					t.Errorf(`%d, %s: got error %v, want v.Result other than "valid"`, v.ID, v.Comment, err)
				}
				continue
			}
			if len(v.EK) > 0 && !bytes.Equal(key.EncapsulationKey().Bytes(), v.EK) {
				t.Errorf("%d, %s: the public key differs", v.ID, v.Comment)
			}
			secret, err := key.Decapsulate(v.C)
			if valid := err == nil && bytes.Equal(secret, v.K); valid != (v.Result == "valid") {
				t.Errorf("%d, %s is %s: %x, %v; want %x", v.ID, v.Comment, v.Result, secret, err, v.K)
			}
		}
	}
	enough(t, seen, 190)
}

// TestMLKEMPublicKeys parses the keys that a peer may send as its public key.
func TestMLKEMPublicKeys(t *testing.T) {
	type group struct {
		Tests []struct {
			verdict
			EK octets
		}
	}
	seen := 0
	for _, g := range read[group](t, "mlkem_768_encaps_test.json") {
		for _, v := range g.Tests {
			seen++
			if _, err := mlkem.NewEncapsulationKey768(v.EK); (err == nil) != (v.Result == "valid") {
				t.Errorf("%d, %s is %s: %v", v.ID, v.Comment, v.Result, err)
			}
		}
	}
	enough(t, seen, 260)
}

// TestAESGCM seals and opens with 256-bit keys and 96-bit nonces, as in Noise.
func TestAESGCM(t *testing.T) {
	seen, framed := 0, 0
	for _, g := range read[aead](t, "aes_gcm_test.json") {
		if g.KeySize != 256 || g.IVSize != 96 {
			continue
		}
		for _, v := range g.Tests {
			seen++
			block, err := aes.NewCipher(v.Key)
			if err != nil {
				t.Fatal(err)
			}
			gcm, err := cipher.NewGCM(block)
			if err != nil {
				t.Fatal(err)
			}
			sealed := slices.Concat(v.CT, v.Tag)
			v.check(t, func() ([]byte, error) { return gcm.Open(nil, v.IV, sealed, v.AAD) })
			// The handshake library uses a counter as the nonce.
			if binary.BigEndian.Uint32(v.IV) == 0 {
				framed++
				state := noise.UnsafeNewCipherState(suite, [32]byte(v.Key), binary.BigEndian.Uint64(v.IV[4:]))
				v.check(t, func() ([]byte, error) { return state.Decrypt(nil, v.AAD, sealed) })
			}
			if v.Result == "valid" && !bytes.Equal(gcm.Seal(nil, v.IV, v.Msg, v.AAD), sealed) {
				t.Errorf("%d, %s: it is sealed otherwise", v.ID, v.Comment)
			}
		}
	}
	enough(t, seen, 60)
	enough(t, framed, 1)
}

var suite = noise.NewCipherSuite(noise.DH25519, noise.CipherAESGCM, noise.HashSHA256)

type aead struct {
	KeySize, IVSize int
	Tests           []sealed
}

type sealed struct {
	verdict
	Key, IV, AAD, Msg, CT, Tag octets
}

// check compares the opened text with the vector.
func (v *sealed) check(t *testing.T, open func() ([]byte, error)) {
	t.Helper()
	message, err := open()
	if valid := err == nil && bytes.Equal(message, v.Msg); valid != (v.Result == "valid") {
		t.Errorf("%d, %s is %s: %v", v.ID, v.Comment, v.Result, err)
	}
}

// TestHKDF derives keys with SHA-256.
func TestHKDF(t *testing.T) {
	type group struct {
		Tests []struct {
			verdict
			IKM, Salt, Info, OKM octets
			Size                 int
		}
	}
	seen := 0
	for _, g := range read[group](t, "hkdf_sha256_test.json") {
		for _, v := range g.Tests {
			seen++
			key, err := hkdf.Key(sha256.New, v.IKM, v.Salt, string(v.Info), v.Size)
			if valid := err == nil && bytes.Equal(key, v.OKM); valid != (v.Result == "valid") {
				t.Errorf("%d, %s is %s: %x, %v; want %x", v.ID, v.Comment, v.Result, key, err, v.OKM)
			}
		}
	}
	enough(t, seen, 80)
}
