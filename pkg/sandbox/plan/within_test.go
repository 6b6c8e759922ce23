package plan

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// TestWithin: everything that a profile grants must be in the scope's directory, wherever
// links lead.
func TestWithin(t *testing.T) {
	top, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	dir, beside := filepath.Join(top, "w"), "/usr"
	for _, err := range []error{os.MkdirAll(filepath.Join(dir, "sub"), 0o700), os.Symlink(beside, filepath.Join(dir, "link")), os.Symlink("w", filepath.Join(top, "moved"))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	profile := func(entries ...permissions.Entry) permissions.Profile {
		return permissions.Profile{Kind: permissions.Managed, FileSystem: permissions.FileSystem{Entries: entries}}
	}
	literal := func(text string, a permissions.Access) permissions.Entry {
		return permissions.Entry{Path: permissions.Path{Text: text}, Access: a}
	}
	root := permissions.Entry{Path: permissions.Path{Kind: permissions.Root}, Access: permissions.Read}
	check := func(name string, profile permissions.Profile, within string, reads, want bool) {
		_, err := Make(profile, permissions.Scope{Cwd: dir, Within: within, WithinReads: reads}, HostView{}, false)
		if _, outside := errors.AsType[*OutsideError](err); outside != want {
			t.Errorf("%s: got error %v, want outside %v", name, err, want)
		}
	}
	for _, tt := range []struct {
		name    string
		profile permissions.Profile
		reads   bool
		outside bool
	}{
		{"itself", profile(root, literal(dir, permissions.Write)), false, false},
		{"below", profile(root, literal(dir+"/sub", permissions.Write)), false, false},
		{"a link out", profile(root, literal(dir+"/link", permissions.Write)), false, true},
		{"below a link out", profile(root, literal(dir+"/link/bin", permissions.Write)), false, true},
		{"outside", profile(root, literal(beside, permissions.Write)), false, true},
		{"everything", permissions.Profile{Kind: permissions.Disabled}, false, true},
		{"temporary files", profile(root, literal("/tmp", permissions.Write)), false, false},
		{"reads itself", profile(literal(dir, permissions.Read)), true, false},
		{"reads everything", profile(root), true, true},
		{"reads a link out", profile(literal(dir, permissions.Read), literal(dir+"/link", permissions.Read)), true, true},
		{"reads temporary files", profile(literal("/tmp", permissions.Read)), true, true},
	} {
		check(tt.name, tt.profile, dir, tt.reads, tt.outside)
	}
	// A link in place of the directory.
	for _, within := range []string{top + "/moved", top + "/moved/sub"} {
		check("reads "+within, profile(literal(within, permissions.Read)), within, true, true)
		check("writes "+within, profile(root, literal(within, permissions.Write)), within, false, true)
	}
}
