package signin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"codex.internal/pkg/host/safeopen"
)

// FileName is the name of the file with the stored credentials, in the home directory.
const FileName = "auth.json"

// ErrNoAuth means that no credentials are stored.
var ErrNoAuth = errors.New("no credentials are stored")

// Store stores credentials. It is safe for concurrent use.
type Store interface {
	// Load returns the stored credentials, or ErrNoAuth.
	Load() (*Auth, error)
	// Save replaces the stored credentials. It preserves unknown members of the old contents.
	Save(a *Auth) error
	// Delete removes the stored credentials, and reports whether there were any.
	Delete() (bool, error)
}

// OpenStore returns the store with a kind, which is the value of the setting
// cli_auth_credentials_store. file, the default, is auth.json in the home directory. auto is the
// same, with a warning. ephemeral exists only as long as the program. Keyrings are not supported.
// OpenStore makes the file private if other users can read it, and calls warn.
func OpenStore(kind, home string, warn func(text string)) (Store, error) {
	if kind == "" || kind == "file" || kind == "auto" {
		makePrivate(filepath.Join(home, FileName), warn)
	}
	switch kind {
	case "", "file":
		return &fileStore{filepath.Join(home, FileName)}, nil
	case "auto":
		warn(fmt.Sprintf("cli_auth_credentials_store is auto: this codex cannot use a keyring; credentials are in %s", filepath.Join(home, FileName)))
		return &fileStore{filepath.Join(home, FileName)}, nil
	case "ephemeral":
		return &memoryStore{}, nil
	case "keyring":
		return nil, errors.New("cli_auth_credentials_store is keyring: this codex cannot use a keyring; set it to file")
	default:
		return nil, fmt.Errorf("cli_auth_credentials_store is %q: it must be file, auto or ephemeral", kind)
	}
}

// makePrivate takes from other users the permission to read or change a file, and calls warn if
// they had it. On Windows the mode does not show that.
func makePrivate(path string, warn func(text string)) {
	info, err := os.Stat(path)
	if err != nil || !info.Mode().IsRegular() || info.Mode().Perm()&0o077 == 0 || runtime.GOOS == "windows" {
		return
	}
	mode := info.Mode().Perm()
	if err := os.Chmod(path, mode&0o700); err != nil {
		warn(fmt.Sprintf("%s has the mode %04o, with which other users can read or change it, and that cannot be changed: %v", path, mode, err))
		return
	}
	warn(fmt.Sprintf("%s had the mode %04o, with which other users could read or change it; it now has the mode %04o", path, mode, mode&0o700))
}

// fileStore is auth.json.
type fileStore struct{ path string }

func (s *fileStore) Load() (*Auth, error) {
	text, err := safeopen.ReadFile(s.path, maxAuthFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoAuth
	}
	if err != nil {
		return nil, err
	}
	a, err := ParseAuth(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.path, err)
	}
	return a, nil
}

// Save writes a file that only the user can read, and renames it to auth.json, so that no reader
// sees a part of it. If the old file cannot be read, it is replaced without preserving anything.
func (s *fileStore) Save(a *Auth) error {
	if old, err := s.Load(); err == nil {
		a = a.keeping(old)
	}
	text, err := a.JSON()
	if err != nil {
		return fmt.Errorf("%s: %w", s.path, err)
	}
	path := s.path
	// If auth.json is a link to a regular file, the target is replaced, because the user keeps the
	// file there. If it is a link to a device or a FIFO, the link is replaced, and its target is
	// not changed.
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		if real, err := filepath.EvalSymlinks(path); err == nil {
			path = real
		}
	}
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, "."+FileName+"-") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err == nil {
		err = f.Sync()
	}
	if e := f.Close(); err == nil {
		err = e
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

func (s *fileStore) Delete() (bool, error) {
	err := os.Remove(s.path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// memoryStore stores credentials until the program ends.
type memoryStore struct {
	mu   sync.Mutex
	auth *Auth
}

func (s *memoryStore) Load() (*Auth, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.auth == nil {
		return nil, ErrNoAuth
	}
	return s.auth, nil
}

func (s *memoryStore) Save(a *Auth) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.auth != nil {
		a = a.keeping(s.auth)
	}
	s.auth = a
	return nil
}

func (s *memoryStore) Delete() (bool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	there := s.auth != nil
	s.auth = nil
	return there, nil
}
