package wsauth

import (
	"log/slog"
	"os"
	"sync"

	"codex.internal/pkg/internal/tokens"
)

// secretFile is a file with a secret, which is read again after each change. Its methods may be
// called from any goroutine.
type secretFile struct {
	flag, path string
	// check returns the secret in the contents of the file, or an error if there is no valid one.
	check func(data []byte) ([]byte, error)
	log   *slog.Logger

	mu     sync.Mutex
	info   os.FileInfo // of the file when it was last read; nil: the file was a pipe, which cannot be read again
	secret []byte
}

// openSecret reads a secret for the first time. log may be nil.
func openSecret(flag, path string, log *slog.Logger, check func(data []byte) ([]byte, error)) (*secretFile, error) {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &secretFile{flag: flag, path: path, check: check, log: log}
	return s, s.read()
}

// read reads the file. If the file has no valid secret, read keeps the previous one.
func (s *secretFile) read() error {
	data, info, err := readSecret(s.flag, s.path)
	if err != nil {
		return err
	}
	secret, err := s.check(data)
	if err != nil {
		return err
	}
	s.secret = secret
	if info.Mode().IsRegular() {
		s.info = info
	}
	return nil
}

// current returns the valid secret. While the file is missing or has no valid secret, the
// previous one remains valid. A program that writes the file in place truncates it first, and
// that must not end the work of all clients (TestCapabilityTokenIsReadAgain).
func (s *secretFile) current() []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.info == nil {
		return s.secret
	}
	info, err := os.Stat(s.path)
	if err != nil || !info.Mode().IsRegular() || tokens.Unchanged(s.info, info) {
		return s.secret
	}
	if err := s.read(); err != nil {
		s.info = info // the file is not read again until it changes
		s.log.Error("the secret could not be read again; the last one stays valid", "error", err)
	} else {
		s.log.Info("the secret was read again", "path", s.path)
	}
	return s.secret
}
