package rendezvous

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/internal/tokens"
	"go.etcd.io/bbolt"
)

// stateFile stores the registrations and the key that signs URLs across a restart, in a bbolt database. A change
// writes a few pages, however many registrations there are, and survives a crash. Only one process at a time may use
// the file.
type stateFile struct {
	path   string
	unlock func()
	db     *bbolt.DB
	opened os.FileInfo // identifies the file of db
	broken atomic.Bool // the last attempt to write it has failed

	signer        *signer
	registrations []*Registration // as they were when it was opened
}

// The buckets of the database. Registrations are JSON, by environment.
var (
	settingsBucket      = []byte("settings")
	registrationsBucket = []byte("registrations")
	versionKey          = []byte("version")
	urlKey              = []byte("url_key")
)

// databaseVersion is the version of what the buckets have.
var databaseVersion = []byte("1")

// stateDocument is the content of the file, and of the JSON files of earlier versions of this program.
type stateDocument struct {
	Version       int             `json:"version"`
	URLKey        []byte          `json:"url_key"`
	Registrations []*Registration `json:"registrations"`
}

// stateVersion is the version of the JSON files.
const stateVersion = 1

// openState opens a state file, or creates one with a new key. A file in JSON, of an earlier version of this
// program, is replaced by a database with the same content.
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
	data, _, err := atomicfile.ReadBounded(path, maxStateFile)
	switch {
	case atomicfile.IsMissing(err):
		err = createState(path, newSigner(), nil)
	case err == nil && (len(data) == 0 || data[0] == '{'):
		var key *signer
		var list []*Registration
		if key, list, err = decodeState(data); err == nil {
			err = createState(path, key, list)
		}
		if err != nil {
			err = fmt.Errorf("%s: %w", path, err)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("state: %w", err)
	}
	s := &stateFile{path: path, unlock: unlock}
	if s.db, err = bbolt.Open(path, 0o600, &bbolt.Options{Timeout: lockTime}); err != nil {
		return nil, fmt.Errorf("state: %s is not a state of a rendezvous service: %w", path, err)
	}
	if s.opened, err = os.Stat(path); err == nil {
		err = s.db.View(s.read)
	}
	if err != nil {
		return nil, fmt.Errorf("state: %s: %w", path, errors.Join(err, s.db.Close()))
	}
	return s, nil
}

// createState creates or replaces a state file. After a crash, the path has the old file or the new one.
func createState(path string, key *signer, registrations []*Registration) (err error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	made := filepath.Join(dir, "state")
	db, err := bbolt.Open(made, 0o600, nil)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bbolt.Tx) error {
		settings, err := tx.CreateBucket(settingsBucket)
		if err == nil {
			_, err = tx.CreateBucket(registrationsBucket)
		}
		if err == nil {
			err = errors.Join(settings.Put(versionKey, databaseVersion), settings.Put(urlKey, key.key[:]))
		}
		for _, reg := range registrations {
			if err == nil {
				err = putRegistration(tx, reg)
			}
		}
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return err
	}
	return atomicfile.Rename(made, path)
}

func putRegistration(tx *bbolt.Tx, reg *Registration) error {
	data, err := json.Marshal(reg)
	if err != nil {
		return err
	}
	return tx.Bucket(registrationsBucket).Put([]byte(reg.Environment), data)
}

// read reads the whole database.
func (s *stateFile) read(tx *bbolt.Tx) error {
	settings, registrations := tx.Bucket(settingsBucket), tx.Bucket(registrationsBucket)
	if settings == nil || registrations == nil {
		return errors.New("it is the database of another program")
	}
	if version := settings.Get(versionKey); !bytes.Equal(version, databaseVersion) {
		return fmt.Errorf("version %q of the database is not supported; expected %q", version, databaseVersion)
	}
	doc := stateDocument{Version: stateVersion, URLKey: settings.Get(urlKey)}
	err := registrations.ForEach(func(environment, data []byte) error {
		reg := new(Registration)
		if err := json.Unmarshal(data, reg); err != nil {
			return fmt.Errorf("the registration of %q: %w", environment, err)
		}
		doc.Registrations = append(doc.Registrations, reg)
		return nil
	})
	if err == nil {
		s.signer, s.registrations, err = doc.check()
	}
	return err
}

// decodeState reads the content of a state file in JSON.
func decodeState(data []byte) (*signer, []*Registration, error) {
	var doc stateDocument
	if err := atomicfile.DecodeDocument(data, &doc); err != nil {
		return nil, nil, err
	}
	return doc.check()
}

// check returns the key and the registrations, or an error if they are not valid.
func (doc *stateDocument) check() (*signer, []*Registration, error) {
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

// change stores a registration, which may be nil, and removes those of environments that are gone. It returns when
// the change is on the disk.
func (s *stateFile) change(reg *Registration, gone []string) error {
	err := s.atPath()
	if err == nil {
		err = s.db.Update(func(tx *bbolt.Tx) error {
			for _, environment := range gone {
				if err := tx.Bucket(registrationsBucket).Delete([]byte(environment)); err != nil {
					return err
				}
			}
			if reg == nil {
				return nil
			}
			return putRegistration(tx, reg)
		})
	}
	s.broken.Store(err != nil)
	if err != nil {
		return fmt.Errorf("state: %w", err)
	}
	return nil
}

// atPath returns an error if the path no longer leads to the database. The next service would not find what is
// written into a file that somebody has removed.
func (s *stateFile) atPath() error {
	info, err := os.Stat(s.path)
	if err != nil {
		return err
	}
	if !os.SameFile(info, s.opened) {
		return fmt.Errorf("%s was replaced by another program", s.path)
	}
	return nil
}

// close releases the file for another process.
func (s *stateFile) close() error {
	defer s.unlock()
	return s.db.Close()
}
