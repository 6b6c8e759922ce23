package wsauth

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/internal/atomicfile"
	"codex.internal/pkg/internal/tokens"
	"github.com/golang-jwt/jwt/v5"
)

func TestRoleTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	now := time.Now()
	file := openTokens(path, func() time.Time { return now })
	limited, made, err := file.Create(context.Background(), TokenSpec{Role: RoleRun, Ceiling: Ceiling{Dir: "/srv"}, TTL: time.Hour, Principal: "ci"})
	if err != nil || made.MaxSandbox != SandboxWorkspaceWrite {
		t.Fatalf("got made %+v, error %v; want no error, made.MaxSandbox %v", made, err, SandboxWorkspaceWrite)
	}
	a, err := New(Config{Mode: CapabilityToken, TokensFile: path})
	if err != nil {
		t.Fatal(err)
	}
	a.tokens = file // with its clock
	grant, err := a.Authenticate(request("Bearer " + limited))
	want := Ceiling{Dir: "/srv", MaxSandbox: SandboxWorkspaceWrite}
	if err != nil || grant.Role != RoleRun || grant.Principal != "principal ci" || grant.Ceiling != want || grant.Check() != nil {
		t.Errorf(`got grant %+v, error %v; want no error, grant.Role %v, grant.Principal "principal ci", grant.Ceiling %v, grant.Check() nil`, grant, err, RoleRun, want)
	}
	read, readToken, err := OpenTokens(path).Create(context.Background(), TokenSpec{Role: RoleRead})
	if err != nil {
		t.Fatal(err)
	}
	if g, err := a.Authenticate(request("Bearer " + read)); err != nil || g.Role != RoleRead || g.Principal != "token "+readToken.ID {
		t.Errorf("got %+v, error %v; want no error, g.Role %v, g.Principal %v", g, err, RoleRead, "token "+readToken.ID)
	}
	now = now.Add(2 * time.Hour)
	if err := grant.Check(); err != ErrEnded {
		t.Errorf("expired: got %v, want %v", err, ErrEnded)
	}
	if _, err := a.Authenticate(request("Bearer " + limited)); !errors.Is(err, ErrTokenExpired) {
		t.Errorf("expired: %v", err)
	}
	g, _ := a.Authenticate(request("Bearer " + read))
	if _, err := OpenTokens(path).Revoke(context.Background(), readToken.ID); err != nil {
		t.Fatal(err)
	}
	if err := g.Check(); !errors.Is(err, ErrRevoked) {
		t.Errorf("revoked: %v", err)
	}
}

// TestChangedTokens: a grant ends when a person changes what its token permits. It does not end
// when only the token's name or expiry changes.
func TestChangedTokens(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := OpenTokens(path)
	secret, _, err := file.Create(t.Context(), TokenSpec{Name: "old", Role: RoleRun, Ceiling: Ceiling{Dir: "/srv/project"}, Principal: "ci", TTL: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, value any) func(map[string]any) {
		return func(token map[string]any) { token[name] = value }
	}
	for _, tt := range []struct {
		name   string
		change func(token map[string]any)
		good   bool
	}{
		{"nothing", func(map[string]any) {}, true},
		{"name", put("name", "new"), true},
		{"later end", put("expires", time.Now().Add(time.Hour*9)), true},
		{"earlier end", put("expires", time.Now().Add(-time.Second)), false},
		{"higher role", func(token map[string]any) { token["role"] = "admin"; delete(token, "dir"); delete(token, "maxSandbox") }, false},
		{"lower role", func(token map[string]any) { token["role"] = "read"; delete(token, "maxSandbox") }, false},
		{"directory", put("dir", "/srv/other"), false},
		{"no directory", func(token map[string]any) { delete(token, "dir"); token["maxSandbox"] = "read-only" }, false},
		{"sandbox", put("maxSandbox", "read-only"), false},
		{"limits", put("limits", map[string]any{"pids": 5}), false},
		{"principal", put("principal", "cd"), false},
		{"secret", put("sha256", strings.Repeat("0", 64)), false},
		{"invalid", put("rule", "run"), false},
	} {
		if err := atomicfile.Write(path, original); err != nil {
			t.Fatal(err)
		}
		grant, err := file.authenticate(secret)
		if err != nil {
			t.Fatal(err)
		}
		var doc struct {
			Version int              `json:"version"`
			Tokens  []map[string]any `json:"tokens"`
		}
		if err := json.Unmarshal(original, &doc); err != nil {
			t.Fatal(err)
		}
		tt.change(doc.Tokens[0])
		text, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		if err := atomicfile.Write(path, text); err != nil {
			t.Fatal(err)
		}
		if err := grant.Check(); (err == nil) != tt.good {
			t.Errorf("%s: got error %v, want success: %v", tt.name, err, tt.good)
		}
	}
}

// TestOpenedTokenFile: if other users may now read or change the file, no client is accepted until the
// mode is corrected.
func TestOpenedTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tokens.json")
	file := OpenTokens(path)
	secret, _, err := file.Create(t.Context(), TokenSpec{Role: RoleRun})
	if err != nil {
		t.Fatal(err)
	}
	grant, err := file.authenticate(secret)
	if err != nil {
		t.Fatal(err)
	}
	for _, mode := range []os.FileMode{0o602, 0o620, 0o604, 0o600, 0o640} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		_, err := file.authenticate(secret)
		if open := mode&0o026 != 0; errors.Is(err, ErrTokenFile) != open || (grant.Check() != nil) != open {
			t.Errorf("mode %o: %v, %v", mode, err, grant.Check())
		}
	}
}

func TestTokensThatCannotBe(t *testing.T) {
	file := OpenTokens(filepath.Join(t.TempDir(), "tokens.json"))
	for _, tt := range []struct {
		name string
		spec TokenSpec
		want string
	}{
		{"no role", TokenSpec{}, "expected read, run or admin"},
		{"strange role", TokenSpec{Role: "root"}, "root"},
		{"relative", TokenSpec{Role: RoleRun, Ceiling: Ceiling{Dir: "a"}}, "clean absolute"},
		{"strange sandbox", TokenSpec{Role: RoleRun, Ceiling: Ceiling{MaxSandbox: "full"}}, "expected read-only"},
		{"nowhere to write", TokenSpec{Role: RoleRun, Ceiling: Ceiling{MaxSandbox: SandboxWorkspaceWrite}}, "needs --cwd"},
		{"read with a sandbox", TokenSpec{Role: RoleRead, Ceiling: Ceiling{MaxSandbox: SandboxReadOnly}}, "can neither start processes nor write"},
		{"read with limits", TokenSpec{Role: RoleRead, Ceiling: Ceiling{Limits: Limits{PIDs: 1}}}, "cannot start processes"},
		{"admin with a ceiling", TokenSpec{Role: RoleAdmin, Ceiling: Ceiling{Dir: "/srv"}}, "admin has no ceilings"},
		{"control character", TokenSpec{Role: RoleRun, Principal: "\x1b"}, "printed"},
	} {
		_, _, err := file.Create(context.Background(), tt.spec)
		var unfit *InvalidError
		if !errors.As(err, &unfit) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got error %v; want errors.As(err, &unfit), an error with %q", tt.name, err, tt.want)
		}
	}
}

func TestRolesAllow(t *testing.T) {
	for _, tt := range []struct {
		own, needed Role
		want        bool
	}{
		{RoleRead, RoleRead, true}, {RoleRead, RoleRun, false}, {RoleRun, RoleRead, true}, {RoleRun, RoleAdmin, false},
		{RoleAdmin, RoleRun, true}, {"", RoleRead, false}, {RoleAdmin, "", false}, {"root", RoleRead, false},
	} {
		if got := tt.own.Allows(tt.needed); got != tt.want {
			t.Errorf("%q allows %q: %t", tt.own, tt.needed, got)
		}
	}
}

// FuzzRoleTokens checks that every accepted token is one that Create could make.
func FuzzRoleTokens(f *testing.F) {
	f.Add([]byte(`{"version":1,"tokens":[]}`))
	f.Add([]byte(`{"version":1,"tokens":[{"id":"0123456789ab","role":"run","dir":"/srv","maxSandbox":"workspace-write","limits":{"pids":5},` +
		`"created":"2026-01-02T03:04:05Z","sha256":"` + strings.Repeat("0a", 32) + `"}]}`))
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

// TestCapabilityTokenIsReadAgain: when another token replaces the one in the file, only the new
// token is valid, and the grants of the old one end. While the file has no valid token, the
// previous one remains valid.
func TestCapabilityTokenIsReadAgain(t *testing.T) {
	path := file(t, testToken)
	a, err := New(Config{Mode: CapabilityToken, TokenFile: path})
	if err != nil {
		t.Fatal(err)
	}
	authenticate := func(token string) (Grant, error) { return a.Authenticate(request("Bearer " + token)) }
	grant, err := authenticate(testToken)
	if err != nil || grant.Check() != nil || !grant.Ends() {
		t.Fatalf("got error %v, check %v, ends %v; want neither, true", err, grant.Check(), grant.Ends())
	}
	for name, change := range map[string]func() error{
		"removed":            func() error { return os.Remove(path) },
		"empty":              func() error { return os.WriteFile(path, nil, 0o600) },
		"too short":          func() error { return os.WriteFile(path, []byte("abc"), 0o600) },
		"readable by others": func() error { return os.Chmod(path, 0o644) },
		"a directory":        func() error { return errors.Join(os.Remove(path), os.Mkdir(path, 0o700)) },
		"the same again":     func() error { return os.WriteFile(path, []byte(testToken+"\n"), 0o600) },
	} {
		if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(testToken), 0o600), change()); err != nil {
			t.Fatal(err)
		}
		if _, err := authenticate(testToken); err != nil || grant.Check() != nil {
			t.Errorf("%s: got errors %v, %v; want none", name, err, grant.Check())
		}
	}
	const next = "open barley, which has 128 bits"
	if err := errors.Join(os.RemoveAll(path), os.WriteFile(path, []byte(next), 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := grant.Check(); err != ErrRevoked {
		t.Errorf("got %v, want %v", err, ErrRevoked)
	}
	if _, err := authenticate(testToken); err != ErrToken {
		t.Errorf("the old token: got %v, want %v", err, ErrToken)
	}
	if g, err := authenticate(next); err != nil || g.Principal == grant.Principal || g.Check() != nil {
		t.Errorf("the new token: got principal %q, error %v, check %v; want another than %q, no error", g.Principal, err, g.Check(), grant.Principal)
	}
}

// TestSharedSecretIsReadAgain: when another secret replaces the one in the file, only tokens that
// it signs are valid, and the grants of earlier ones end. While the file has no valid secret, the
// previous one remains valid.
func TestSharedSecretIsReadAgain(t *testing.T) {
	s, path := signer{t, time.Now().Truncate(time.Second)}, file(t, testSecret)
	a, err := New(Config{Mode: SignedBearerToken, SharedSecretFile: path})
	if err != nil {
		t.Fatal(err)
	}
	old := "Bearer " + s.good()
	grant, err := a.Authenticate(request(old))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("short"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := a.Authenticate(request(old)); err != nil || grant.Check() != nil {
		t.Errorf("with a secret that is too short: got errors %v, %v; want none", err, grant.Check())
	}
	next := strings.Repeat("next", 8)
	if err := os.WriteFile(path, []byte(next), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := grant.Check(); err != ErrRevoked {
		t.Errorf("the old grant: got %v, want %v", err, ErrRevoked)
	}
	if _, err := a.Authenticate(request(old)); err != ErrJWT {
		t.Errorf("the old token: got %v, want %v", err, ErrJWT)
	}
	token := s.sign(jwt.SigningMethodHS256, []byte(next), s.claims())
	if g, err := a.Authenticate(request("Bearer " + token)); err != nil || g.Check() != nil || g.Principal != grant.Principal {
		t.Errorf("the new token: got principal %q, error %v, check %v; want %q, no error", g.Principal, err, g.Check(), grant.Principal)
	}
}

// TestSignedGrantsEnd: the grant of a JWT ends with exp. If the grant began after exp, but
// within the clock skew, it ends when the clock skew has passed.
func TestSignedGrantsEnd(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	s := signer{t, now}
	a, err := newAt(Config{Mode: SignedBearerToken, SharedSecretFile: file(t, testSecret)}, func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	token := s.good("exp", now.Add(time.Minute).Unix())
	for _, tt := range []struct{ begins, ends time.Duration }{
		{0, time.Minute},
		{time.Minute + time.Second, time.Minute + DefaultClockSkew},
	} {
		now = s.now.Add(tt.begins)
		grant, err := a.Authenticate(request("Bearer " + token))
		if err != nil || !grant.Ends() || !grant.Renewable {
			t.Fatalf("got %+v, error %v; want one that ends and is renewable", grant, err)
		}
		now = s.now.Add(tt.ends - time.Second)
		if err := grant.Check(); err != nil {
			t.Errorf("begun at %v, a second before its end: got %v", tt.begins, err)
		}
		now = s.now.Add(tt.ends)
		if err := grant.Check(); err != ErrEnded {
			t.Errorf("begun at %v, at its end: got %v, want %v", tt.begins, err, ErrEnded)
		}
	}
}
