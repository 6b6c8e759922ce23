package wsauth

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"log/slog"
	"os"
	"sync"

	"codex.internal/pkg/internal/tokens"
)

// capability is the single token that gives access to the port. If it comes from a file, the
// file is read again after each change. Its methods may be called from any goroutine.
type capability struct {
	path string // "": only the digest is known, and never changes
	log  *slog.Logger

	mu     sync.Mutex
	info   os.FileInfo // of the file when it was last read; nil: the file was a pipe, which cannot be read again
	digest [sha256.Size]byte
}

// read reads the file. If the file has no valid token, read keeps the previous one.
func (c *capability) read() error {
	data, info, err := readSecret("--ws-token-file", c.path)
	if err != nil {
		return err
	}
	token := string(bytes.TrimSpace(data))
	switch {
	case token == "":
		return fmt.Errorf("--ws-token-file %s: the file is empty; put the token into it", c.path)
	case !presentable(token) || len(token) > maxTokenBytes:
		const format = "--ws-token-file %s: no client could send this token; it must be one line of at most %d printable ASCII characters"
		return fmt.Errorf(format, c.path, maxTokenBytes)
	case strength(token) < minTokenBits:
		return fmt.Errorf("--ws-token-file %s: the token is too short to be safe from guessing: it has at most %d bits, "+
			"and needs %d; make one with `openssl rand -hex 32`", c.path, strength(token), minTokenBits)
	}
	c.digest = sha256.Sum256([]byte(token))
	if info.Mode().IsRegular() {
		c.info = info
	}
	return nil
}

// current returns the digest of the valid token. While the file is missing or has no valid
// token, the previous token remains valid. A program that writes the file in place truncates it
// first, and that must not end the work of all clients (TestCapabilityTokenIsReadAgain).
func (c *capability) current() [sha256.Size]byte {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.info == nil {
		return c.digest
	}
	info, err := os.Stat(c.path)
	if err != nil || !info.Mode().IsRegular() || tokens.Unchanged(c.info, info) {
		return c.digest
	}
	if err := c.read(); err != nil {
		c.info = info // the file is not read again until it changes
		c.log.Error("the token could not be read again; the last one stays valid", "error", err)
	} else {
		c.log.Info("the token was read again", "path", c.path)
	}
	return c.digest
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
	if c.path != "" {
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
