//go:build linux

package execserver

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// TestSecretsAreHidden: no profile of a client grants the directory of a
// credential, and a profile without entries stays as it is.
func TestSecretsAreHidden(t *testing.T) {
	entry := func(path string, access permissions.Access) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: access}
	}
	root := permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Write}
	hidden, link := t.TempDir(), filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(hidden, link); err != nil {
		t.Fatal(err)
	}
	srv := &Server{secretPaths: []string{"/run/secrets", hidden}}
	sent := []permissions.Entry{
		root, entry("/run/secrets", permissions.Write), entry("/run/secrets/token", permissions.Read), entry("/run/secrets2", permissions.Read),
		entry(link, permissions.Read),
	}
	p := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: slices.Clone(sent)}}
	was := p
	srv.hideSecrets(&p, false)
	want := []permissions.Entry{root, entry("/run/secrets2", permissions.Read), entry("/run/secrets", permissions.Deny), entry(hidden, permissions.Deny)}
	if !slices.Equal(p.FileSystem.Entries, want) {
		t.Errorf("got %v, want %v", p.FileSystem.Entries, want)
	}
	if !slices.Equal(was.FileSystem.Entries, sent) {
		t.Errorf("the entries of the client were changed: %v", was.FileSystem.Entries)
	}
	grantRead(&p, "/home/bundle")
	if got := p.FileSystem.Entries; len(got) != 5 || got[4] != entry("/home/bundle", permissions.Read) {
		t.Errorf("the bundle is not readable: %v", got)
	}
	open := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Unrestricted: true}}
	srv.hideSecrets(&open, false)
	grantRead(&open, "/home/bundle")
	if len(open.FileSystem.Entries) > 0 {
		t.Errorf("entries in a profile without files: %v", open.FileSystem.Entries)
	}
	none := permissions.Profile{Kind: permissions.Managed}
	(&Server{}).hideSecrets(&none, false)
	if none.FileSystem.Entries != nil {
		t.Errorf("entries without credentials: %v", none.FileSystem.Entries)
	}
}

// TestReadsAllBut: helpers that were started ahead serve policies that deny nothing but what
// the server hides, by the identities of that.
func TestReadsAllBut(t *testing.T) {
	hidden, other := t.TempDir(), t.TempDir()
	root := permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}
	deny := func(path string) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Kind: permissions.Literal, Text: path}, Access: permissions.Deny}
	}
	glob := permissions.Entry{Path: permissions.Path{Kind: permissions.Glob, Text: hidden}, Access: permissions.Deny}
	srv := &Server{secretPaths: []string{hidden, "/no/such/file"}}
	for _, c := range []struct {
		name    string
		entries []permissions.Entry
		want    bool
	}{
		{"everything", []permissions.Entry{root}, true},
		{"all but what is hidden", []permissions.Entry{root, deny(hidden)}, true},
		{"nothing", nil, false},
		{"only a denial", []permissions.Entry{deny(hidden)}, false},
		{"the client denies more", []permissions.Entry{root, deny(hidden), deny(other)}, false},
		{"a pattern", []permissions.Entry{root, glob}, false},
		{"what is hidden is not there", []permissions.Entry{root, deny("/no/such/file")}, false},
	} {
		p := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: c.entries}}
		if _, got := srv.readsAllBut(&p); got != c.want {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
	}
	p := permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: []permissions.Entry{root, deny(hidden)}}}
	before, _ := srv.readsAllBut(&p)
	if err := os.Rename(hidden, hidden+".moved"); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(other, hidden); err != nil {
		t.Fatal(err)
	}
	if after, reads := srv.readsAllBut(&p); !reads || after == before {
		t.Errorf("%q for what was %q before it was replaced", after, before)
	}
}
