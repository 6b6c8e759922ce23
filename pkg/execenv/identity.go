package execenv

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"codex.internal/pkg/host/safeopen"
	"codex.internal/pkg/relay/noise"
)

// A server knows a client that comes through a registry by the key with which the client's
// end of the encrypted stream proves itself; what the registry and the relay say about
// the client's token does not count, because the server need not trust them
// (docs/spec/relay.md §6.1). A key that is made anew for each run is enough for a session. A
// detached process belongs to its client for longer, so the client keeps the key in a file. There
// is one for each environment: services cannot tell that two clients are the same.

// clientIdentity returns the key for an environment of a registry: that in the directory, which
// is made with the first one, or a new one if dir is empty.
func clientIdentity(dir string, r Registry) (*noise.Identity, error) {
	if dir == "" {
		return noise.GenerateIdentity()
	}
	digest := sha256.Sum256([]byte(strings.TrimRight(strings.TrimSpace(r.URL), "/") + "\x00" + strings.TrimSpace(r.EnvironmentID)))
	path := filepath.Join(dir, hex.EncodeToString(digest[:16])+".key")
	id, err := readIdentity(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeIdentity(dir, path); err == nil {
			id, err = readIdentity(path)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("the key by which servers know this client: %w", err)
	}
	return id, nil
}

func readIdentity(path string) (*noise.Identity, error) {
	text, err := safeopen.ReadPrivate(path, noise.MaxStored)
	if err != nil {
		return nil, err
	}
	id, err := noise.ParseIdentity(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w; without the file a new one is made, and the detached processes of the old one belong to nobody", path, err)
	}
	return id, nil
}

// makeIdentity writes a new key, whole or not at all. If another client is first, its key stays.
func makeIdentity(dir, path string) error {
	id, err := noise.GenerateIdentity()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "new-*") // of mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(id.Store())
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err := os.Link(f.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return nil
}
