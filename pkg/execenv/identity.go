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

// A client that connects through a registry is identified to the server by the key of its end
// of the encrypted stream. The registry and the relay may also report the client's token, but
// the server need not trust them (docs/spec/relay.md §6.1). For a session a new key is enough.
// A detached process belongs to its client for longer, so the client keeps the key in a file.
// Each environment has its own key, so that services cannot correlate clients.

// clientIdentity returns the key for an environment of a registry: the one in the directory
// dir, which is created with the first key, or a new one if dir is empty.
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
		return nil, fmt.Errorf("the key that identifies this client to servers: %w", err)
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
		return nil, fmt.Errorf("%s: %w; if you remove the file, a new key is made, but it cannot access the detached processes of the old one", path, err)
	}
	return id, nil
}

// makeIdentity writes a new key in one step. If another process was first, its key is kept.
func makeIdentity(dir, path string) error {
	id, err := noise.GenerateIdentity()
	if err != nil {
		return err
	}
	root, err := safeopen.PrivateDir(dir, true)
	if err != nil {
		return err
	}
	defer root.Close()
	f, err := os.CreateTemp(dir, "new-*") // with the mode 0600
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
