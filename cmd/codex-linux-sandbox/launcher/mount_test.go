//go:build linux

package launcher

import (
	"testing"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

// TestCoversAreCopiedWhereTheyAreMounted: Linux before 6.15 copies a mount only
// while it is in the mount namespace. Afterwards it must not be there any more.
func TestCoversAreCopiedWhereTheyAreMounted(t *testing.T) {
	for _, root := range []sandbox.RootKind{sandbox.RootReadOnly, sandbox.RootWritable, sandbox.RootEmpty} {
		p := &program{}
		m := &mounter{program: p, plan: &sandbox.Plan{Root: root, Mounts: []sandbox.Mount{
			{Kind: sandbox.BindWritable, Source: "/tmp", Target: "/tmp"},
			{Kind: sandbox.EmptyDir, Target: "/tmp/.git", Mode: 0o555},
			{Kind: sandbox.EmptyFile, Target: "/tmp/.env"},
		}}}
		m.view()
		copies, isMounted, unmounted := 0, map[register]bool{}, false
		for _, s := range p.steps {
			switch {
			case s.nr == unix.SYS_MOVE_MOUNT:
				isMounted[s.regs[0]] = true
			case s.what == "copy the cover for":
				copies++
				if !isMounted[s.regs[0]] {
					t.Errorf("%d: the cover for %s is copied from a file system that is mounted nowhere", root, s.path)
				}
			case s.what == "unmount" && s.path == "the covers":
				clear(isMounted)
				unmounted = true
			}
		}
		if copies != 2 || !unmounted {
			t.Errorf("%d: %d covers; the file system of the covers stays mounted: %t", root, copies, !unmounted)
		}
	}
}
