package audit

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"codex.internal/pkg/host/safeopen"
)

// maxKey bounds a file with a key, in bytes. A key file has less than 200.
const maxKey = 16 << 10

// ReadKey reads the key of a server: PKCS #8 in PEM format, in a file that no other user can
// read. If the file does not exist, ReadKey creates it with a new key.
func ReadKey(path string) (ed25519.PrivateKey, error) {
	key, err := readKey(path)
	if errors.Is(err, fs.ErrNotExist) {
		return makeKey(path)
	}
	return key, err
}

// readKey reads a key that exists.
func readKey(path string) (ed25519.PrivateKey, error) {
	text, err := safeopen.ReadPrivate(path, maxKey)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return nil, fmt.Errorf("%s has no key in PEM format", path)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	key, ok := parsed.(ed25519.PrivateKey)
	if err != nil || !ok {
		return nil, fmt.Errorf("%s has no Ed25519 key (make one with openssl genpkey -algorithm ed25519)", path)
	}
	return key, nil
}

// makeKey makes a key and its file.
func makeKey(path string) (ed25519.PrivateKey, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return nil, err
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	err = pem.Encode(f, &pem.Block{Type: "PRIVATE KEY", Bytes: der})
	if err == nil {
		err = f.Sync()
	}
	return key, errors.Join(err, f.Close())
}

// ParsePublicKey decodes a public key in base64, as in signatures.
func ParsePublicKey(text string) (ed25519.PublicKey, error) {
	key, err := base64.StdEncoding.DecodeString(text)
	if err != nil || len(key) != ed25519.PublicKeySize {
		return nil, errors.New("a public key is 32 bytes in base64")
	}
	return key, nil
}
