package rendezvous

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"
)

// TokenFile is a file with tokens. A running service notices what another
// process changes in it. Its methods may be called from any goroutine.
type TokenFile struct {
	path string
	now  func() time.Time

	mu     sync.Mutex
	info   os.FileInfo // of what tokens was read from; nil: nothing
	tokens map[string]*Token
}

// OpenTokens returns the token file at a path. It need not be there yet: then
// it has no tokens.
func OpenTokens(path string) *TokenFile { return &TokenFile{path: path, now: time.Now} }

// Path returns where the file is.
func (f *TokenFile) Path() string { return f.path }

// load returns the tokens, and reads the file if it has changed since the last time.
// The caller must not change the map. While the file cannot be read there are no
// tokens: to remove the file revokes all of them.
func (f *TokenFile) load() (map[string]*Token, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	info, err := os.Stat(f.path)
	if err == nil && f.info != nil && os.SameFile(f.info, info) && f.info.ModTime().Equal(info.ModTime()) && f.info.Size() == info.Size() {
		return f.tokens, nil
	}
	data, info, err := readBounded(f.path, maxTokenFile)
	if isMissing(err) {
		f.info, f.tokens = nil, nil
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("tokens: %w", err)
	}
	tokens, err := decodeTokens(data)
	if err != nil {
		return nil, fmt.Errorf("tokens: %s: %w", f.path, err)
	}
	f.info, f.tokens = info, tokens
	return tokens, nil
}

// TokenSpec is what a new token is for; see Token.
type TokenSpec struct {
	Name         string
	Role         Role
	Environments []string
	TTL          time.Duration // 0: it does not expire
}

// Create makes a token and returns its text, which is not kept and cannot be
// had again. The error is an InvalidError if there can be no such token.
func (f *TokenFile) Create(ctx context.Context, spec TokenSpec) (string, Token, error) {
	now := f.now().UTC().Truncate(time.Second)
	id, secret := newSecret()
	token := &Token{ID: id, Name: spec.Name, Role: spec.Role, Environments: spec.Environments, Created: now, SHA256: hexDigest(secret)}
	if spec.TTL < 0 {
		return "", Token{}, invalid("expires", "%v: a token cannot expire before it is made", spec.TTL)
	}
	if spec.TTL > 0 {
		token.Expires = now.Add(spec.TTL)
	}
	if err := token.check(); err != nil {
		return "", Token{}, err
	}
	err := f.update(ctx, func(tokens map[string]*Token) error {
		if len(tokens) >= maxTokens {
			return fmt.Errorf("there are %d tokens already; revoke some", len(tokens))
		}
		tokens[id] = token
		return nil
	})
	if err != nil {
		return "", Token{}, err
	}
	return secret, *token, nil
}

// Revoke removes the token with an id, or returns an ErrNoToken.
func (f *TokenFile) Revoke(ctx context.Context, id string) (Token, error) {
	var revoked Token
	tokens, err := f.load()
	if err == nil && tokens[id] == nil {
		err = fmt.Errorf("token %q: %w", id, ErrNoToken)
	}
	if err != nil {
		return revoked, err // and nothing is made where the file would be
	}
	err = f.update(ctx, func(tokens map[string]*Token) error {
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
func (f *TokenFile) List() ([]Token, error) {
	tokens, err := f.load()
	if err != nil {
		return nil, err
	}
	list := make([]Token, 0, len(tokens))
	for _, t := range ordered(tokens) {
		list = append(list, *t)
	}
	return list, nil
}

func ordered(tokens map[string]*Token) []*Token {
	return slices.SortedFunc(maps.Values(tokens), func(a, b *Token) int {
		return cmp.Or(a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
	})
}

// update changes the file while no other process does.
func (f *TokenFile) update(ctx context.Context, change func(map[string]*Token) error) error {
	if _, err := f.load(); err != nil {
		return err // before anything is made
	}
	if err := os.MkdirAll(filepath.Dir(f.path), 0o700); err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, lockTime)
	defer cancel()
	unlock, err := lockFile(ctx, f.path)
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
		tokens = make(map[string]*Token)
	}
	if err := change(tokens); err != nil {
		return err
	}
	data, err := encodeTokens(tokens)
	if err == nil {
		err = writeAtomic(f.path, data)
	}
	if err != nil {
		return fmt.Errorf("tokens: %w", err)
	}
	return nil
}

// encodeTokens returns the content of the file, unless it is more than load
// reads: then nobody could use any token.
func encodeTokens(tokens map[string]*Token) ([]byte, error) {
	data, err := json.MarshalIndent(tokensDocument{Version: tokensVersion, Tokens: ordered(tokens)}, "", "  ")
	if err != nil {
		return nil, err
	}
	data = append(data, '\n')
	if len(data) > maxTokenFile {
		return nil, fmt.Errorf("the file would have %d bytes, more than %d; revoke some, or use patterns with *", len(data), maxTokenFile)
	}
	return data, nil
}

// authenticate returns the token that a text is, or an ErrBadToken. Other
// errors are of the file.
func (f *TokenFile) authenticate(secret string) (*Token, error) {
	t, err := f.find(TokenID(secret))
	if err != nil {
		return nil, err
	}
	if !t.matches(secret) {
		return nil, ErrBadToken
	}
	return t, nil
}

// find returns the token with an id if it is still good, or an ErrBadToken.
func (f *TokenFile) find(id string) (*Token, error) {
	tokens, err := f.load()
	if err != nil {
		return nil, err
	}
	t := tokens[id]
	if t == nil || t.expired(f.now()) {
		return nil, ErrBadToken
	}
	return t, nil
}
