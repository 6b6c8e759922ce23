package rendezvous

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/internal/tokens"
)

func newTokens(t testing.TB) *TokenFile {
	return OpenTokens(filepath.Join(t.TempDir(), "new", "tokens.json"))
}

// newToken makes a token and returns its text.
func newToken(t testing.TB, f *TokenFile, role Role, environments ...string) (string, Token) {
	t.Helper()
	secret, token, err := f.Create(context.Background(), TokenSpec{Role: role, Environments: environments})
	if err != nil {
		t.Fatal(err)
	}
	return secret, token
}

func TestPermits(t *testing.T) {
	now := time.Now()
	for _, tt := range []struct {
		name  string
		token Token
		role  Role
		id    string
		want  bool
	}{
		{"exact", Token{Role: RoleBoth, Environments: []string{"a", "b"}}, RoleHarness, "b", true},
		{"another", Token{Role: RoleBoth, Environments: []string{"a"}}, RoleHarness, "ab", false},
		{"pattern", Token{Role: RoleBoth, Environments: []string{"ci-*"}}, RoleExecutor, "ci-7", true},
		{"pattern of all", Token{Role: RoleBoth, Environments: []string{"*"}}, RoleExecutor, "ümläut", true},
		{"case counts", Token{Role: RoleBoth, Environments: []string{"A*"}}, RoleExecutor, "ab", false},
		{"executor only", Token{Role: RoleExecutor, Environments: []string{"*"}}, RoleHarness, "a", false},
		{"harness only", Token{Role: RoleHarness, Environments: []string{"*"}}, RoleExecutor, "a", false},
		{"harness", Token{Role: RoleHarness, Environments: []string{"*"}}, RoleHarness, "a", true},
		{"not yet expired", Token{Role: RoleBoth, Environments: []string{"*"}, Token: tokens.Token{Expires: now.Add(1)}}, RoleHarness, "a", true},
		{"expired", Token{Role: RoleBoth, Environments: []string{"*"}, Token: tokens.Token{Expires: now}}, RoleHarness, "a", false},
		{"none", Token{Role: RoleBoth}, RoleHarness, "a", false},
	} {
		if got := tt.token.permits(tt.role, tt.id, now); got != tt.want {
			t.Errorf("%s: got %v, want %v", tt.name, got, tt.want)
		}
	}
}

func TestTokenSpecs(t *testing.T) {
	f := newTokens(t)
	for _, tt := range []struct {
		name string
		spec TokenSpec
		want string // in the error
	}{
		{"no role", TokenSpec{Environments: []string{"*"}}, "role"},
		{"strange role", TokenSpec{Role: "root", Environments: []string{"*"}}, "root"},
		{"no environments", TokenSpec{Role: RoleBoth}, "environment is missing"},
		{"empty environment", TokenSpec{Role: RoleBoth, Environments: []string{""}}, "neither"},
		{"bad pattern", TokenSpec{Role: RoleBoth, Environments: []string{"["}}, "neither"},
		{"slash", TokenSpec{Role: RoleBoth, Environments: []string{"a/b"}}, "neither"},
		{"too many", TokenSpec{Role: RoleBoth, Environments: make([]string, maxPatterns+1)}, "at most"},
		{"name too long", TokenSpec{Role: RoleBoth, Environments: []string{"*"}, Name: strings.Repeat("n", tokens.MaxName+1)}, "name"},
		{"control character", TokenSpec{Role: RoleBoth, Environments: []string{"*"}, Name: "\x1b[2J"}, "name"},
		{"past", TokenSpec{Role: RoleBoth, Environments: []string{"*"}, TTL: -1}, "expire"},
	} {
		_, _, err := f.Create(context.Background(), tt.spec)
		var unfit *InvalidError
		if !errors.As(err, &unfit) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v; want errors.As(err, &unfit), an error with %q", tt.name, err, tt.want)
		}
	}
	if list, err := f.List(); err != nil || len(list) != 0 {
		t.Errorf("got list %v, error %v; want no error, len(list) 0", list, err)
	}
}

func TestTokenFile(t *testing.T) {
	f := newTokens(t)
	secret, token := newToken(t, f, RoleBoth, "*")
	running := OpenTokens(f.Path()) // the service's view of it
	if got, err := running.Authenticate(secret); err != nil || got.ID != token.ID {
		t.Fatalf("got %+v, error %v; want no error, ID %v", got, err, token.ID)
	}
	content, err := os.ReadFile(f.Path())
	if err != nil || strings.Contains(string(content), secret) || strings.Contains(string(content), secret[len(tokenPrefix)+13:]) {
		t.Errorf("the file has the secret: %s, %v", content, err)
	}
	if info, err := os.Stat(f.Path()); err != nil || runtime.GOOS != "windows" && info.Mode().Perm() != 0o600 {
		t.Errorf("got info.Mode() %v, error %v; want no error, info.Mode().Perm() 0o600", info.Mode(), err)
	}
	other, _ := newToken(t, f, RoleHarness, "x")
	if _, err := running.Authenticate(other); err != nil {
		t.Errorf("a token made while it runs: %v", err)
	}
	for name, wrong := range map[string]string{
		"empty": "", "no token": "Bearer", "changed": secret[:len(secret)-1] + "!", "shortened": secret[:len(secret)-1],
		"another's secret": string(tokenPrefix) + token.ID + other[len(tokenPrefix)+12:], "too long": secret + strings.Repeat("x", tokens.MaxText),
	} {
		if _, err := running.Authenticate(wrong); !errors.Is(err, ErrBadToken) {
			t.Errorf("%s: got error %v, want %v", name, err, ErrBadToken)
		}
	}
	if revoked, err := f.Revoke(context.Background(), token.ID); err != nil || revoked.ID != token.ID {
		t.Errorf("got revoked %+v, error %v; want no error, revoked.ID %v", revoked, err, token.ID)
	}
	if _, err := running.Authenticate(secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("revoked: %v", err)
	}
	if _, err := f.Revoke(context.Background(), token.ID); !errors.Is(err, ErrNoToken) {
		t.Errorf("revoked twice: %v", err)
	}
	if list, err := f.List(); err != nil || len(list) != 1 || list[0].Role != RoleHarness {
		t.Errorf("got list %+v, error %v; want no error, len(list) 1, list[0].Role %v", list, err, RoleHarness)
	}
}

func TestTokensExpire(t *testing.T) {
	f := newTokens(t)
	secret, _, err := f.Create(context.Background(), TokenSpec{Role: RoleBoth, Environments: []string{"*"}, TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Authenticate(secret); err != nil {
		t.Error(err)
	}
	f = openTokens(f.Path(), func() time.Time { return time.Now().Add(time.Hour) })
	if _, err := f.Authenticate(secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("after an hour: %v", err)
	}
}

func TestTokenFileThatCannotBeUsed(t *testing.T) {
	f := newTokens(t)
	secret, _ := newToken(t, f, RoleBoth, "*")
	if _, err := f.Authenticate(secret); err != nil {
		t.Fatal(err)
	}
	good, err := os.ReadFile(f.Path())
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string]string{
		"cut off":        string(good[:len(good)/2]),
		"something more": string(good) + "{}",
		"another case":   strings.Replace(string(good), `"role"`, `"Role"`, 1),
		"both cases":     strings.Replace(string(good), `"role"`, `"ROLE": "executor", "role"`, 1),
		"a field twice":  strings.Replace(string(good), `"role"`, `"role": "executor", "role"`, 1),
		"unknown field":  strings.Replace(string(good), `"role"`, `"only_from": "10.0.0.0/8", "role"`, 1),
		"version":        strings.Replace(string(good), `"version": 1`, `"version": 2`, 1),
		"digest":         strings.Replace(string(good), `"sha256": "`, `"sha256": "x`, 1),
	} {
		if err := atomicfile.Write(f.Path(), []byte(content)); err != nil {
			t.Fatal(err)
		}
		if _, err := f.Authenticate(secret); err == nil || errors.Is(err, ErrBadToken) || !strings.Contains(err.Error(), f.Path()) {
			t.Errorf("%s: got error %v; want not %v, an error with f.Path()", name, err, ErrBadToken)
		}
		if _, _, err := f.Create(context.Background(), TokenSpec{Role: RoleBoth, Environments: []string{"*"}}); err == nil {
			t.Errorf("%s: it was overwritten", name)
		}
	}
	if err := os.Remove(f.Path()); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Authenticate(secret); !errors.Is(err, ErrBadToken) {
		t.Errorf("removed: %v", err)
	}
}

// TestTokensThatDoNotFit: every written file can be read again.
func TestTokensThatDoNotFit(t *testing.T) {
	all := make(map[string]*Token)
	for i := range tokens.MaxFile / (maxPatterns * maxEnvironmentID) {
		id, secret := tokenPrefix.New()
		all[id] = &Token{Token: tokens.Token{ID: id, SHA256: tokens.Digest(secret)}, Role: RoleBoth}
		for range maxPatterns {
			all[id].Environments = append(all[id].Environments, strings.Repeat("e", maxEnvironmentID))
		}
		if i > 0 {
			continue
		}
		data, err := tokens.Encode(all)
		if err != nil {
			t.Fatal(err)
		}
		if again, err := tokens.Decode[Token](data); err != nil || len(again) != 1 {
			t.Fatalf("%d tokens, %v", len(again), err)
		}
	}
	if data, err := tokens.Encode(all); err == nil {
		t.Errorf("%d bytes are too many", len(data))
	}
}

func TestTokensMadeAtTheSameTime(t *testing.T) {
	path := newTokens(t).Path()
	const n = 20
	var wg sync.WaitGroup
	for range n {
		wg.Go(func() {
			if _, _, err := OpenTokens(path).Create(context.Background(), TokenSpec{Role: RoleBoth, Environments: []string{"*"}}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if list, err := OpenTokens(path).List(); err != nil || len(list) != n {
		t.Errorf("%d tokens, %v", len(list), err)
	}
}

func TestLocked(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	unlock, err := atomicfile.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := atomicfile.Lock(ended, path); !errors.Is(err, ErrLocked) {
		t.Errorf("got error %v, want %v", err, ErrLocked)
	}
	unlock()
	unlock, err = atomicfile.Lock(context.Background(), path)
	if err != nil {
		t.Fatal(err)
	}
	unlock()
}

// FuzzDecodeTokens checks that an accepted file has no token that Create would
// refuse.
func FuzzDecodeTokens(f *testing.F) {
	f.Add([]byte(`{"version":1,"tokens":[]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"id":"0123456789ab","role":"both","environments":["*"],"created":"2026-01-02T03:04:05Z","sha256":"` + strings.Repeat("0a", 32) + `"}]}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		found, err := tokens.Decode[Token](data)
		if err != nil {
			return
		}
		for id, token := range found {
			if id != token.ID || !tokens.IsID(id) || token.Check() != nil || len(token.SHA256) != 64 {
				t.Fatalf("got id %q, token %+v; want id %q, tokens.IsID(id), token.Check() nil, len(token.SHA256) 64", id, token, token.ID)
			}
		}
	})
}

func TestNothingIsMadeInVain(t *testing.T) {
	spec := TokenSpec{Role: RoleBoth, Environments: []string{"*"}}
	for _, tt := range []struct {
		name string
		do   func(dir string) error
		want string // in the error
	}{
		{"revoke of what is not there", func(dir string) error {
			_, err := OpenTokens(filepath.Join(dir, "new", "tokens.json")).Revoke(t.Context(), "0123456789ab")
			return err
		}, "the token does not exist"},
		{"tokens in a directory", func(dir string) error {
			_, _, err := OpenTokens(filepath.Join(dir, "d")).Create(t.Context(), spec)
			return err
		}, "is a directory"},
		{"tokens in another file", func(dir string) error {
			_, _, err := OpenTokens(filepath.Join(dir, "f")).Create(t.Context(), spec)
			return err
		}, "the file is empty"},
		{"state in a directory", func(dir string) error {
			_, err := openState(t.Context(), filepath.Join(dir, "d"))
			return err
		}, "is a directory; name a file"},
	} {
		dir := t.TempDir()
		if err := errors.Join(os.Mkdir(filepath.Join(dir, "d"), 0o700), os.WriteFile(filepath.Join(dir, "f"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		err := tt.do(dir)
		if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Count(err.Error(), dir) > 1 {
			t.Errorf("%s: got error %v; want an error with %q, strings.Count(err.Error(), dir) at most 1", tt.name, err, tt.want)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) != 2 {
			t.Errorf("%s leaves %v, %v", tt.name, left, err)
		}
	}
}
