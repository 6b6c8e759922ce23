package permissions

import "testing"

// TestProfiles compares the named profiles with their rules.
func TestProfiles(t *testing.T) {
	view := noView{}
	for _, c := range []struct {
		name    string
		profile Profile
		path    string
		want    bool
	}{
		{"read-only", ReadOnly(), "/w/f", false},
		{"workspace of the request", Workspace(), "/w/f", true},
		{"its metadata", Workspace(), "/w/.git/config", false},
		{"beside it", Workspace(), "/x", false},
		{"named directories", Workspace("/a", "/b/"), "/b/f", true},
		{"their metadata", Workspace("/a", "/b"), "/b/.codex/f", false},
		{"not the workspace", Workspace("/a"), "/w/f", false},
	} {
		policy := Resolve(c.profile.FileSystem, Scope{Cwd: "/w"}, view)
		if got := policy.CanWrite(c.path); got != c.want || !policy.FullRead() || c.profile.Network != NetworkRestricted {
			t.Errorf("%s: %s may be written: %v, want %v", c.name, c.path, got, c.want)
		}
	}
}
