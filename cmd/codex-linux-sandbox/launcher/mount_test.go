package launcher

import (
	"slices"
	"testing"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// TestMasksAreCopiedWhereTheyAreMounted: Linux before 6.15 copies a mount only
// while it is in the mount namespace. After the copy it must be unmounted.
func TestMasksAreCopiedWhereTheyAreMounted(t *testing.T) {
	for _, root := range []plan.RootKind{plan.RootReadOnly, plan.RootWritable, plan.RootEmpty} {
		p := initproc.New()
		m := &mounter{Program: p, plan: &plan.Plan{Root: root, Mounts: []plan.Mount{
			{Kind: plan.BindWritable, Source: "/tmp", Target: "/tmp"},
			{Kind: plan.EmptyDir, Target: "/tmp/.git", Mode: 0o555},
			{Kind: plan.EmptyFile, Target: "/tmp/.env"},
		}}}
		m.view()
		copies, isMounted, unmounted := 0, map[initproc.Register]bool{}, false
		for _, s := range p.Steps {
			switch {
			case s.Number == unix.SYS_MOVE_MOUNT:
				isMounted[s.Args[0].From] = true
			case s.What == "copy the mask of":
				copies++
				if !isMounted[s.Args[0].From] {
					t.Errorf("%d: the mask of %s is copied from a file system that is mounted nowhere", root, s.Path)
				}
			case s.What == "unmount" && s.Path == "the masks":
				clear(isMounted)
				unmounted = true
			}
		}
		if copies != 2 || !unmounted {
			t.Errorf("%d: %d masks; the file system of the masks stays mounted: %t", root, copies, !unmounted)
		}
	}
}

// TestMountsAreIdentified: where the view shows the host, shown files and mount points must have
// the identities that the plan recorded.
func TestMountsAreIdentified(t *testing.T) {
	id := func(n uint64) plan.FileID { return plan.FileID{Dev: 7, Ino: n} }
	mounts := []plan.Mount{
		{Kind: plan.BindWritable, Source: "/w", Target: "/w", ID: id(1)},
		{Kind: plan.BindWritable, Source: "/w/a", Target: "/w/a", Pin: true, ID: id(2)},
		{Kind: plan.EmptyDir, Target: "/w/a/d", ID: id(3)},
		{Kind: plan.BindReadOnly, Source: "/w/a/d/open", Target: "/w/a/d/open", ID: id(4)},
	}
	for root, want := range map[plan.RootKind][]uint64{
		// The sources come first. The target of the last mount is in the mask.
		plan.RootReadOnly: {1, 2, 4, 1, 2, 3},
		// With an empty root, the launcher creates the first target for the view.
		plan.RootEmpty: {1, 2, 4, 2, 3},
	} {
		p := initproc.New()
		(&mounter{Program: p, plan: &plan.Plan{Root: root, Mounts: mounts}}).view()
		var got []uint64
		for _, s := range p.Steps {
			if s.Same != nil && s.Same.Dev == 7 {
				got = append(got, s.Same.Ino)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("%d: %v are compared, want %v", root, got, want)
		}
	}
}
