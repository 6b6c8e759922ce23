package plan

import (
	"slices"
	"strings"
	"testing"
)

func TestWallGrantsWhatPlansLetBeWritten(t *testing.T) {
	bind := func(kind MountKind, target string) Mount { return Mount{Kind: kind, Source: target, Target: target} }
	file := bind(BindWritable, "/x/file")
	file.File = true
	for _, tt := range []struct {
		name   string
		mounts []Mount
		want   []string
	}{
		{"nothing", []Mount{bind(BindReadOnly, "/a"), {Kind: EmptyDir, Target: "/b"}, {Kind: EmptyFile, Target: "/c"}, {Kind: Link, Target: "/d"}}, nil},
		{"two", []Mount{bind(BindWritable, "/a"), bind(BindWritable, "/ab")}, []string{"/a", "/ab"}},
		{"one below the other", []Mount{bind(BindWritable, "/a"), bind(BindReadOnly, "/a/b"), bind(BindWritable, "/a/b/c")}, []string{"/a"}},
		{"one above the other", []Mount{bind(BindWritable, "/a/b"), bind(BindWritable, "/a")}, []string{"/a"}},
		{"twice the same", []Mount{bind(BindWritable, "/a"), bind(BindWritable, "/a")}, []string{"/a"}},
		{"a file", []Mount{file}, []string{"/x/file"}},
	} {
		plan := &Plan{Mounts: tt.mounts}
		var got []string
		for _, g := range plan.WallGrants() {
			got = append(got, g.Path)
			if g.Rights&landlockReads != 0 || g.Path == "/x/file" && g.Rights&^landlockFiles != 0 {
				t.Errorf("%s: rights %#x", tt.name, g.Rights)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", tt.name, got, tt.want)
		}
	}
}

// Landlock forbids mounts, so a command that may mount is confined by the mounts only.
func TestWallHandlesWrites(t *testing.T) {
	for _, tt := range []struct {
		name    string
		plan    Plan
		abi     int
		nesting bool
		want    bool
	}{
		{"a plan", Plan{}, WallABI, false, true},
		{"an empty root", Plan{Root: RootEmpty}, 6, false, true},
		{"a version that forbids renames", Plan{}, WallABI - 1, false, false},
		{"a command that may mount", Plan{}, 6, true, false},
		{"a writable root", Plan{Root: RootWritable}, 6, false, false},
	} {
		rights := tt.plan.WallRights(tt.abi, tt.nesting)
		reads := uint64(0)
		if tt.plan.Root == RootEmpty {
			reads = WallReads
		}
		if (rights != 0) != tt.want || rights&landlockReads != reads {
			t.Errorf("%s: got %#x; want rights != 0: %v, rights&landlockReads: %#x", tt.name, rights, tt.want, reads)
		}
		says := strings.Contains(tt.plan.DescribeWall(tt.abi, tt.nesting), "can be written only below")
		if says != tt.want {
			t.Errorf("%s: got %s, want says %v", tt.name, tt.plan.DescribeWall(tt.abi, tt.nesting), tt.want)
		}
	}
}

// TestWallGrantsReads: if reads are restricted, readable paths get grants with fewer rights than
// writable paths.
func TestWallGrantsReads(t *testing.T) {
	plan := &Plan{Root: RootEmpty, Mounts: []Mount{
		{Kind: BindReadOnly, Target: "/usr"}, {Kind: BindReadOnly, Target: "/usr/lib"}, {Kind: BindWritable, Target: "/ws"},
		{Kind: BindReadOnly, Target: "/ws/.git"}, {Kind: BindWritable, Target: "/usr/local"}, {Kind: EmptyDir, Target: "/usr/share/x"},
		{Kind: BindReadOnly, Target: "/etc/hosts", File: true}, {Kind: Link, Target: "/bin"},
	}}
	want := []Grant{
		{Path: "/usr", Rights: WallReads}, {Path: "/ws", Rights: WallDirectory | WallReads},
		{Path: "/usr/local", Rights: WallDirectory | WallReads}, {Path: "/etc/hosts", Rights: WallReads},
	}
	if got := plan.WallGrants(); !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// TestFIFOsThatCanBeWritten: the description of a policy says which FIFOs can still be written to.
func TestFIFOsThatCanBeWritten(t *testing.T) {
	below := []Mount{{Kind: BindWritable, Target: "/ws"}, {Kind: BindReadOnly, Target: "/ws/.git"}}
	const open = "FIFOs that exist in read-only paths, such as below /ws/.git, can be written to\n"
	for name, tt := range map[string]struct {
		plan    Plan
		nesting bool
		want    string
	}{
		"a read-only path in a writable one":  {Plan{Mounts: below}, false, open},
		"a read-only path beside it":          {Plan{Mounts: []Mount{{Kind: BindReadOnly, Target: "/x"}, {Kind: BindWritable, Target: "/ws"}}}, false, ""},
		"a read-only path in a writable root": {Plan{Root: RootWritable, Mounts: below[1:]}, false, open},
		"nesting":                             {Plan{}, true, "FIFOs that exist outside of writable directories can be written to\n"},
	} {
		_, got, _ := strings.Cut(tt.plan.DescribeWall(LandlockABI, tt.nesting), "\n")
		if got != tt.want {
			t.Errorf("%s: got %q, want %q", name, got, tt.want)
		}
	}
}
