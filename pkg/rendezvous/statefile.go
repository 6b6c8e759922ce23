package rendezvous

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/internal/tokens"
)

// stateFile stores the registrations and the key that signs URLs across a restart. Only one process
// at a time may use it.
type stateFile struct {
	path   string
	unlock func()
	broken atomic.Bool // the last attempt to write it has failed

	signer        *signer
	registrations []*Registration // as they were when it was opened
}

// stateDocument is the content of the file.
type stateDocument struct {
	Version       int             `json:"version"`
	URLKey        []byte          `json:"url_key"`
	Registrations []*Registration `json:"registrations"`
}

// stateVersion is the version of the file format.
const stateVersion = 1

// openState opens a state file, or creates one with a new key.
func openState(ctx context.Context, path string) (_ *stateFile, err error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := atomicfile.Lock(ctx, path)
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	defer func() {
		if err != nil {
			unlock()
		}
	}()
	s := &stateFile{path: path, unlock: unlock}
	data, _, err := atomicfile.ReadBounded(path, maxStateFile)
	if atomicfile.IsMissing(err) {
		s.signer = newSigner()
		return s, s.save(nil)
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	if s.signer, s.registrations, err = decodeState(data); err != nil {
		return nil, fmt.Errorf("state: %s: %w", path, err)
	}
	return s, nil
}

// decodeState reads the content of a state file.
func decodeState(data []byte) (*signer, []*Registration, error) {
	var doc stateDocument
	if err := atomicfile.DecodeDocument(data, &doc); err != nil {
		return nil, nil, err
	}
	s := new(signer)
	switch {
	case doc.Version != stateVersion:
		return nil, nil, fmt.Errorf("version %d of the file is not supported; expected %d", doc.Version, stateVersion)
	case len(doc.URLKey) != len(s.key):
		return nil, nil, fmt.Errorf("url_key has %d bytes, not %d", len(doc.URLKey), len(s.key))
	case len(doc.Registrations) > MaxEnvironments:
		return nil, nil, fmt.Errorf("%d registrations, more than %d", len(doc.Registrations), MaxEnvironments)
	}
	copy(s.key[:], doc.URLKey)
	seen := make(map[string]bool)
	for i, reg := range doc.Registrations {
		if reg == nil || reg.ID == "" || !tokens.IsID(reg.Token) || reg.Key == (Registration{}).Key {
			return nil, nil, fmt.Errorf("registration %d is not complete", i)
		}
		if err := checkEnvironmentID(reg.Environment); err != nil {
			return nil, nil, fmt.Errorf("registration %d: %w", i, err)
		}
		if seen["id "+reg.ID] || seen["environment "+reg.Environment] {
			return nil, nil, fmt.Errorf("registration %d is there twice", i)
		}
		seen["id "+reg.ID], seen["environment "+reg.Environment] = true, true
	}
	return s, doc.Registrations, nil
}

// save replaces the file. Only one goroutine may call it at a time.
func (s *stateFile) save(registrations []*Registration) error {
	data, err := json.Marshal(stateDocument{Version: stateVersion, URLKey: s.signer.key[:], Registrations: registrations})
	if err == nil {
		err = atomicfile.Write(s.path, data)
	}
	s.broken.Store(err != nil)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// close releases the file for another process.
func (s *stateFile) close() { s.unlock() }
