//go:build unix

package rendezvous

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestFilesThatAreNotPrivate: files that other users can change are refused, because they
// determine permissions, and so are those that they can read: the state has the key of the URLs.
func TestFilesThatAreNotPrivate(t *testing.T) {
	const want = "can be read or changed by other users"
	tokens := newTokens(t)
	secret, _ := newToken(t, tokens, RoleBoth, "*")
	state := filepath.Join(t.TempDir(), "state.json")
	s, err := New(t.Context(), Options{Tokens: tokens, StateFile: state})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Shutdown(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o620, 0o602, 0o604} {
		for _, path := range []string{tokens.Path(), state} {
			if err := os.Chmod(path, mode); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := OpenTokens(tokens.Path()).Authenticate(secret); err == nil || errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), want) {
			t.Errorf("tokens with mode %o: %v", mode, err)
		}
		if _, err := New(t.Context(), Options{Tokens: tokens, StateFile: state}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("state with mode %o: %v", mode, err)
		}
	}
}
