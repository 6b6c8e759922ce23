package confine

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// TestSecretsAreHidden: no profile of a client grants access to the directory of a credential.
// A profile without entries does not change.
func TestSecretsAreHidden(t *testing.T) {
	entry := func(path string, access permissions.Access) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: access}
	}
	root := permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Write}
	hidden, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(hidden, link); err != nil {
		t.Fatal(err)
	}
	c := New(Options{HiddenPaths: func() []string { return []string{"/run/secrets", hidden} }, RetainDir: func() string { return "" }})
	sent := []permissions.Entry{
		root, entry("/run/secrets", permissions.Write), entry("/run/secrets/token", permissions.Read), entry("/run/secrets2", permissions.Read),
		entry(link, permissions.Read),
	}
	p := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: slices.Clone(sent)}}
	was := p
	c.hideSecrets(&p, false)
	want := []permissions.Entry{root, entry("/run/secrets2", permissions.Read), entry("/run/secrets", permissions.Deny), entry(hidden, permissions.Deny)}
	if !slices.Equal(p.FileSystem.Entries, want) {
		t.Errorf("got %v, want %v", p.FileSystem.Entries, want)
	}
	if !slices.Equal(was.FileSystem.Entries, sent) {
		t.Errorf("the entries of the client were changed: %v", was.FileSystem.Entries)
	}
	GrantRead(&p, "/home/bundle")
	if got := p.FileSystem.Entries; len(got) != 5 || got[4] != entry("/home/bundle", permissions.Read) {
		t.Errorf("the bundle is not readable: %v", got)
	}
	open := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Unrestricted: true}}
	c.hideSecrets(&open, false)
	GrantRead(&open, "/home/bundle")
	if len(open.FileSystem.Entries) > 0 {
		t.Errorf("entries in a profile without files: %v", open.FileSystem.Entries)
	}
	none := permissions.Profile{Kind: permissions.Managed}
	New(Options{HiddenPaths: func() []string { return nil }, RetainDir: func() string { return "" }}).hideSecrets(&none, false)
	if none.FileSystem.Entries != nil {
		t.Errorf("entries without credentials: %v", none.FileSystem.Entries)
	}
}
