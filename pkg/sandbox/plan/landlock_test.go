package plan

import (
	"testing"

	"golang.org/x/sys/unix"
)

// TestLandlockOfAnOlderKernel: each version restricts everything that the previous one does, and one thing more, which
// is lost on a kernel that has only the previous version.
func TestLandlockOfAnOlderKernel(t *testing.T) {
	const (
		making = unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_WRITE_FILE
		tcp    = unix.LANDLOCK_ACCESS_NET_BIND_TCP | unix.LANDLOCK_ACCESS_NET_CONNECT_TCP
		scopes = unix.LANDLOCK_SCOPE_SIGNAL | unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET
	)
	for _, tt := range []struct {
		lost       string // on a kernel before this version
		since      int
		restricts  LandlockFeatures
		secondWall bool // the version before is enough for one
	}{
		{"all of Landlock", 1, LandlockFeatures{Files: making, Size: 8}, false},
		{"renames from one directory to another, and so the second wall", 2, LandlockFeatures{Files: unix.LANDLOCK_ACCESS_FS_REFER, Size: 8}, false},
		{"refusing to truncate files", 3, LandlockFeatures{Files: unix.LANDLOCK_ACCESS_FS_TRUNCATE, Size: 8}, true},
		{"refusing TCP", 4, LandlockFeatures{TCP: tcp, Size: 16}, true},
		{"refusing ioctls of devices", 5, LandlockFeatures{Files: unix.LANDLOCK_ACCESS_FS_IOCTL_DEV, Size: 16}, true},
		{"keeping signals and abstract Unix sockets inside", 6, LandlockFeatures{Scopes: scopes, Size: 24}, true},
	} {
		t.Run(tt.lost, func(t *testing.T) {
			with, before := LandlockOf(tt.since), LandlockOf(tt.since-1)
			if with.Files&tt.restricts.Files != tt.restricts.Files || with.TCP&tt.restricts.TCP != tt.restricts.TCP ||
				with.Scopes&tt.restricts.Scopes != tt.restricts.Scopes || with.Size != tt.restricts.Size {
				t.Errorf("version %d: got %+v, want at least %+v", tt.since, with, tt.restricts)
			}
			if before.Files&tt.restricts.Files != 0 || before.TCP&tt.restricts.TCP != 0 || before.Scopes&tt.restricts.Scopes != 0 {
				t.Errorf("version %d: got %+v, want nothing of %+v", tt.since-1, before, tt.restricts)
			}
			if with.Files&before.Files != before.Files || with.TCP&before.TCP != before.TCP || with.Scopes&before.Scopes != before.Scopes {
				t.Errorf("version %d: got %+v, want all of version %d: %+v", tt.since, with, tt.since-1, before)
			}
			if got := (&Plan{}).WallRights(tt.since-1, false) != 0; got != tt.secondWall {
				t.Errorf("version %d is a second wall: got %v, want %v", tt.since-1, got, tt.secondWall)
			}
		})
	}
	if got, want := LandlockOf(100), LandlockOf(LandlockABI); got != want {
		t.Errorf("a later version: got %+v, want %+v", got, want)
	}
	if got, want := LandlockOf(LandlockABI).Files, uint64(WallDirectory|landlockReads); got != want {
		t.Errorf("all rights to files: got %#x, want %#x", got, want)
	}
}
