package confine

import (
	"log/slog"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/execserver/wsauth"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
)

// TestReadersWithoutASandbox: if no sandbox can be made, the server refuses a client that may
// only read, unless AllowUnconfinedReaders is set. It does not confine other clients.
func TestReadersWithoutASandbox(t *testing.T) {
	for _, permitted := range []bool{false, true} {
		c := New(Options{Log: slog.New(slog.DiscardHandler), Sandbox: runner.Options{Launcher: "/nowhere", Helper: "/nowhere"}, UnconfinedReaders: permitted})
		confinement, err := c.FileConfinement(&wsauth.Grant{Role: wsauth.RoleRead}, nil)
		switch {
		case confinement != nil:
			t.Errorf("permitted %v: got %v, want none", permitted, confinement)
		case permitted && err != nil:
			t.Errorf("got %v, want no error", err)
		case !permitted && (err == nil || !strings.Contains(err.Error(), "--allow-unconfined-readers")):
			t.Errorf("got %v, want an error that names the option", err)
		}
		if confinement, err := c.FileConfinement(&wsauth.Grant{Role: wsauth.RoleRun}, nil); confinement != nil || err != nil {
			t.Errorf("the role run: got %v, %v; want neither", confinement, err)
		}
		c.Close()
	}
}

// TestIntersect: a file request gets what its own sandbox and the ceiling permit.
func TestIntersect(t *testing.T) {
	literal := func(text string, a permissions.Access) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Text: text}, Access: a}
	}
	root := func(a permissions.Access) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: a}
	}
	tmp := permissions.Entry{Path: permissions.Path{Kind: permissions.SlashTmp}, Access: permissions.Write}
	project := permissions.Entry{Path: permissions.Path{Kind: permissions.ProjectRoots}, Access: permissions.Read}
	for _, tt := range []struct {
		name    string
		entries []permissions.Entry
		dir     string
		access  permissions.Access
		granted permissions.Access
		want    []permissions.Entry
	}{
		{"everything", []permissions.Entry{root(permissions.Write)}, "/w", permissions.Write, permissions.Write,
			[]permissions.Entry{literal("/w", permissions.Write)}},
		{"a read token", []permissions.Entry{root(permissions.Write)}, "/w", permissions.Read, permissions.Write,
			[]permissions.Entry{literal("/w", permissions.Read)}},
		{"its own is stricter", []permissions.Entry{root(permissions.Read), literal("/w/a", permissions.Write), tmp}, "/w", permissions.Write, permissions.Read,
			[]permissions.Entry{literal("/w", permissions.Read), literal("/w/a", permissions.Write)}},
		{"outside", []permissions.Entry{literal("/other", permissions.Write), literal("/ww", permissions.Write)}, "/w", permissions.Write, permissions.Deny, nil},
		{"what is denied stays so", []permissions.Entry{root(permissions.Write), literal("/w/s", permissions.Deny)}, "/w", permissions.Write, permissions.Write,
			[]permissions.Entry{literal("/w", permissions.Write), literal("/w/s", permissions.Deny)}},
		{"a project that is read-only", []permissions.Entry{root(permissions.Write), project}, "/w", permissions.Write, permissions.Write,
			[]permissions.Entry{literal("/w", permissions.Read)}},
		{"read-only without a directory", []permissions.Entry{root(permissions.Read), literal("/w", permissions.Write)}, "/", permissions.Read, permissions.Read,
			[]permissions.Entry{root(permissions.Read), literal("/w", permissions.Read)}},
	} {
		if got := intersect(tt.entries, tt.dir, tt.access, tt.granted); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %+v, want %+v", tt.name, got, tt.want)
		}
	}
}
