package wsauth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
)

// capability is the single token that gives access to the port. Its methods may be called from
// any goroutine.
type capability struct {
	file   *secretFile // nil: only the digest is known, and never changes
	digest [sha256.Size]byte
}

// checkCapability is the check of the file with the token.
func checkCapability(path string) func(data []byte) ([]byte, error) {
	return func(data []byte) ([]byte, error) {
		data = bytes.TrimSpace(data)
		switch token := string(data); {
		case token == "":
			return nil, fmt.Errorf("--ws-token-file %s: the file is empty; put the token into it", path)
		case !presentable(token) || len(token) > maxTokenBytes:
			const format = "--ws-token-file %s: no client could send this token; it must be one line of at most %d printable ASCII characters"
			return nil, fmt.Errorf(format, path, maxTokenBytes)
		case strength(token) < minTokenBits:
			return nil, fmt.Errorf("--ws-token-file %s: the token is too short to be safe from guessing: it has at most %d bits, "+
				"and needs %d; make one with `openssl rand -hex 32`", path, strength(token), minTokenBits)
		}
		return data, nil
	}
}

// current returns the digest of the valid token.
func (c *capability) current() [sha256.Size]byte {
	if c.file == nil {
		return c.digest
	}
	return sha256.Sum256(c.file.current())
}

// authenticate returns the grant of a client with the token.
func (c *capability) authenticate(token string) (Grant, error) {
	if len(token) > maxTokenBytes {
		return Grant{}, ErrToken
	}
	// Comparing digests takes the same time wherever the tokens differ, and whatever their
	// lengths are.
	digest, current := sha256.Sum256([]byte(token)), c.current()
	if subtle.ConstantTimeCompare(digest[:], current[:]) != 1 {
		return Grant{}, ErrToken
	}
	// The name is a digest of the digest. A process that can read the name learns nothing about
	// the token. Sessions of one token do not belong to the next one.
	name := sha256.Sum256(digest[:])
	grant := Unlimited(CapabilityToken + " " + hex.EncodeToString(name[:16]))
	if c.file != nil {
		grant.check = func() error {
			if c.current() != digest {
				return ErrRevoked
			}
			return nil
		}
	}
	return grant, nil
}

// strength returns an upper bound for the entropy of a token in bits, from its length and the
// kinds of its characters.
func strength(token string) int {
	tenths := 33 // tenths of a bit per character: log2(10)
	for i := range len(token) {
		switch c := token[i]; {
		case c >= '0' && c <= '9':
		case c >= 'a' && c <= 'f', c >= 'A' && c <= 'F':
			tenths = max(tenths, 40)
		default:
			tenths = 60 // base64: log2(64)
		}
	}
	return len(token) * tenths / 10
}
