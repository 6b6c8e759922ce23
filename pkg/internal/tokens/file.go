package tokens

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"codex.internal/pkg/internal/atomicfile"
)

// Kept is a pointer to a token type of a service, which embeds Token. Check checks the fields that
// the service has added, and returns an InvalidError.
type Kept[T any] interface {
	*T
	Common() *Token
	Check() error
}

// File is a file with tokens. A running service notices when another process changes the file. Its
// methods may be called from any goroutine.
type File[T any, P Kept[T]] struct {
	prefix Prefix
	path   string
	now    func() time.Time

	mu     sync.Mutex
	info   os.FileInfo // of the file that the tokens were read from; nil: no file
	tokens map[string]P
}

// Open returns the file at a path. If the file does not exist, it has no tokens. now is time.Now,
// except in tests.
func Open[T any, P Kept[T]](path string, prefix Prefix, now func() time.Time) *File[T, P] {
	return &File[T, P]{path: path, prefix: prefix, now: now}
}

// Path returns the path of the file.
func (f *File[T, P]) Path() string { return f.path }

// load returns the tokens. It reads the file if it has changed since the last call. The caller must
// not change the map. While the file cannot be read there are no tokens, so removing the file
// revokes all of them.
func (f *File[T, P]) load() (map[string]P, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && Unchanged(f.info, info) {
		return f.tokens, nil
	}
	data, info, err := atomicfile.ReadBounded(f.path, MaxFile)
	if atomicfile.IsMissing(err) {
		f.info, f.tokens = nil, nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	tokens, err := Decode[T, P](data)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", f.path, err)
	}
	f.info, f.tokens = info, tokens
	return tokens, nil
}

// Unchanged reports whether a file has not changed. A change of the mode counts too, because a file
// that others may now change is refused.
func Unchanged(before, now os.FileInfo) bool {
	return os.SameFile(before, now) && before.ModTime().Equal(now.ModTime()) && before.Size() == now.Size() && before.Mode() == now.Mode()
}

// Read returns the reason why the file cannot be read. It returns nil if the file can be read or
// does not exist.
func (f *File[T, P]) Read() error {
	_, err := f.load()
	return err
}

// Create creates a token that is valid for ttl (0: it does not expire) and returns its text, which
// is not stored and cannot be recovered. made has the name and the service's fields. The error is
// an InvalidError if the token is not valid.
func (f *File[T, P]) Create(ctx context.Context, made T, ttl time.Duration) (string, T, error) {
	var none T
	p := P(&made)
	token := p.Common()
	now := f.now().UTC().Truncate(time.Second)
	id, secret := f.prefix.New()
	token.ID, token.Created, token.Expires, token.SHA256 = id, now, time.Time{}, Digest(secret)
	if ttl < 0 {
		return "", none, Invalid("expires", "%v: a token cannot expire before it is created", ttl)
	}
	if ttl > 0 {
		token.Expires = now.Add(ttl)
	}
	if err := check(p); err != nil {
		return "", none, err
	}
	err := f.update(ctx, func(tokens map[string]P) error {
		if len(tokens) >= maxTokens {
			return fmt.Errorf("%d tokens already exist; revoke some", len(tokens))
		}
		tokens[id] = p
		return nil
	})
	if err != nil {
		return "", none, err
	}
	return secret, made, nil
}

// Revoke removes the token with an id, or returns an ErrNoToken.
func (f *File[T, P]) Revoke(ctx context.Context, id string) (T, error) {
	var revoked T
	tokens, err := f.load()
	if err == nil && tokens[id] == nil {
		err = fmt.Errorf("token %q: %w", id, ErrNoToken)
	}
	if err != nil {
		return revoked, err // and no file is created
	}
	err = f.update(ctx, func(tokens map[string]P) error {
		t := tokens[id]
		if t == nil {
			return fmt.Errorf("token %q: %w", id, ErrNoToken)
		}
		revoked = *t
		delete(tokens, id)
		return nil
	})
	return revoked, err
}

// List returns the tokens, oldest first.
func (f *File[T, P]) List() ([]T, error) {
	tokens, err := f.load()
	if err != nil {
		return nil, err
	}
	list := make([]T, 0, len(tokens))
	for _, t := range ordered(tokens) {
		list = append(list, *t)
	}
	return list, nil
}

// NextEnd returns when the next of the tokens expires that has not expired yet; zero: none does, or the file cannot be read. counts
// reports whether a token counts; nil: all do.
func (f *File[T, P]) NextEnd(counts func(P) bool) (end time.Time) {
	tokens, err := f.load()
	if err != nil {
		return end
	}
	for _, t := range tokens {
		if at := t.Common().Expires; (counts == nil || counts(t)) && !t.Common().Expired(f.now()) && !at.IsZero() && (end.IsZero() || at.Before(end)) {
			end = at
		}
	}
	return end
}

func ordered[T any, P Kept[T]](tokens map[string]P) []P {
	return slices.SortedFunc(maps.Values(tokens), func(a, b P) int {
		return cmp.Or(a.Common().Created.Compare(b.Common().Created), cmp.Compare(a.Common().ID, b.Common().ID))
	})
}

// update changes the file under a lock, so that no other process changes it meanwhile.
func (f *File[T, P]) update(ctx context.Context, change func(map[string]P) error) error {
	if _, err := f.load(); err != nil {
		return err // before any file is created
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := atomicfile.Lock(ctx, f.path)
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	defer unlock()
	tokens, err := f.load()
	if err != nil {
		return err
	}
	tokens = maps.Clone(tokens)
	if tokens == nil {
		tokens = make(map[string]P)
	}
	if err := change(tokens); err != nil {
		return err
	}
	data, err := Encode(tokens)
	if err == nil {
		err = atomicfile.Write(f.path, data)
	}
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// Authenticate returns the token with a text, or an ErrBadToken; if only its time is over, ErrExpired. Other errors mean
// that the file cannot be read.
func (f *File[T, P]) Authenticate(secret string) (P, error) {
	tokens, err := f.load()
	if err != nil {
		return nil, err
	}
	t := tokens[f.prefix.ID(secret)]
	switch {
	case t == nil || !t.Common().matches(secret):
		return nil, ErrBadToken
	case t.Common().Expired(f.now()):
		return nil, ErrExpired
	}
	return t, nil
}

// Find returns the token with an id if it is still valid, or otherwise an ErrBadToken. The caller
// must not change the token.
func (f *File[T, P]) Find(id string) (P, error) {
	tokens, err := f.load()
	if err != nil {
		return nil, err
	}
	t := tokens[id]
	if t == nil || t.Common().Expired(f.now()) {
		return nil, ErrBadToken
	}
	return t, nil
}

// document is the content of a file.
type document[P any] struct {
	Version int `json:"version"`
	Tokens  []P `json:"tokens"`
}

// Decode decodes a token file. An unknown member is an error, because it could be a restriction.
func Decode[T any, P Kept[T]](data []byte) (map[string]P, error) {
	var doc document[P]
	if err := atomicfile.DecodeDocument(data, &doc); err != nil {
		return nil, err
	}
	if doc.Version != fileVersion {
		return nil, fmt.Errorf("version %d of the file is not supported; expected %d", doc.Version, fileVersion)
	}
	if len(doc.Tokens) > maxTokens {
		return nil, fmt.Errorf("%d tokens, more than %d", len(doc.Tokens), maxTokens)
	}
	tokens := make(map[string]P, len(doc.Tokens))
	for i, p := range doc.Tokens {
		if p == nil || !IsID(p.Common().ID) {
			return nil, fmt.Errorf("token %d of the file has no valid id", i)
		}
		t := p.Common()
		if digest, err := hex.DecodeString(t.SHA256); err != nil || len(digest) != sha256.Size || strings.ToLower(t.SHA256) != t.SHA256 {
			return nil, fmt.Errorf("token %s: sha256 must be %d hexadecimal digits", t.ID, 2*sha256.Size)
		}
		if err := check(p); err != nil {
			return nil, fmt.Errorf("token %s: %w", t.ID, err)
		}
		if tokens[t.ID] != nil {
			return nil, fmt.Errorf("token %s is in the file twice", t.ID)
		}
		tokens[t.ID] = p
	}
	return tokens, nil
}

// check returns an InvalidError if a person has requested an invalid token, or has written one into
// the file.
func check[T any, P Kept[T]](p P) error {
	if err := p.Check(); err != nil {
		return err
	}
	return p.Common().check()
}

// Encode returns the content of the file. It returns an error if load would refuse the content
// because of its size: no token could then be used any more.
func Encode[T any, P Kept[T]](tokens map[string]P) ([]byte, error) {
	data, err := json.MarshalIndent(document[P]{Version: fileVersion, Tokens: ordered(tokens)}, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	if len(data) > MaxFile {
		return nil, fmt.Errorf("the file would have %d bytes, more than %d; revoke some, or use patterns with *", len(data), MaxFile)
	}
	return data, nil
}
