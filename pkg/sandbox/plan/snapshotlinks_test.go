package plan

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
)

// randomTree makes directories, files and links with few names, so that links lead through each other and in circles.
func randomTree(t *testing.T, r *rand.Rand, top string) {
	t.Helper()
	name := func() string { return string("abcd"[r.IntN(4)]) }
	dirs := []string{top}
	for range 4 + r.IntN(14) {
		at := dirs[r.IntN(len(dirs))] + "/" + name()
		var err error
		switch r.IntN(5) {
		case 0, 1:
			if err = os.Mkdir(at, 0o755); err == nil {
				dirs = append(dirs, at)
			}
		case 2:
			if _, gone := os.Lstat(at); gone != nil {
				err = os.WriteFile(at, []byte(at), 0o644)
			}
		default:
			to := []string{top + "/", "", "../", "./"}[r.IntN(4)]
			for range 1 + r.IntN(3) {
				to += []string{name(), name(), name(), ".."}[r.IntN(4)] + "/"
			}
			err = os.Symlink(strings.TrimSuffix(to, "/"), at)
		}
		if err != nil && !os.IsExist(err) {
			t.Fatal(err)
		}
	}
}

// TestSnapshotAgainstTheKernel: in random trees of links a snapshot gives the same results as the kernel, and keeps its
// answers under paths without links.
func TestSnapshotAgainstTheKernel(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	through := 0
	for seed := range uint64(250) {
		r := rand.New(rand.NewPCG(seed, 0))
		top := fmt.Sprintf("%s/%d", base, seed)
		if err := os.Mkdir(top, 0o755); err != nil {
			t.Fatal(err)
		}
		randomTree(t, r, top)
		view, done := HostView{}.Walk()
		s := newSnapshot(view)
		for range 60 {
			at := top
			for range 1 + r.IntN(5) {
				at += "/" + string("abcd"[r.IntN(4)])
			}
			var want uint64
			info, err := os.Lstat(at)
			if err == nil {
				want = info.Sys().(*syscall.Stat_t).Ino
				if real, err := filepath.EvalSymlinks(filepath.Dir(at)); err == nil && real != filepath.Dir(at) {
					through++
				}
			}
			for range 2 {
				got, wrong := s.Lstat(at)
				// For the kernel a file has no "..", although a link may contain that; the
				// kernel then returns an error.
				if got.Ino != want && !errors.Is(err, syscall.ENOTDIR) || wrong != nil && err == nil {
					t.Errorf("seed %d, %s: inode %d, %v, want %d, %v", seed, at, got.Ino, wrong, want, err)
				}
			}
			if err != nil || info.Mode()&os.ModeSymlink == 0 {
				continue
			}
			to, err := os.Readlink(at)
			if got, wrong := s.Readlink(at); got != to || err != nil || wrong != nil {
				t.Errorf("seed %d, %s leads to %q, %v, want %q, %v", seed, at, got, wrong, to, err)
			}
		}
		for name := range s.looks {
			if real, err := filepath.EvalSymlinks(filepath.Dir(name)); err != nil || real != filepath.Dir(name) {
				t.Errorf("seed %d: an answer is kept for %s, in %s, %v", seed, name, real, err)
			}
		}
		if err := s.check(HostView{}); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		done()
	}
	if through < 50 {
		t.Errorf("only %d paths led through links", through)
	}
}

// TestManyLinks: the links of all directories of a path are counted together, as the kernel does.
func TestManyLinks(t *testing.T) {
	host := tree("/w/f text", "/w/l -> .")
	for n, ok := range map[int]bool{permissions.MaxLinks: true, permissions.MaxLinks + 1: false} {
		s := newSnapshot(host)
		if info, err := s.Lstat("/w" + strings.Repeat("/l", n) + "/f"); (err == nil && info.Type == permissions.Regular) != ok {
			t.Errorf("through %d links: %+v, %v", n, info, err)
		}
	}
}

// TestDeepPathsBelowLinks: a plan for a path below a link, which a workspace's .git may name, takes little longer than
// one for the same path without the link. Before, the longest path that fits into a .git took hours.
func TestDeepPathsBelowLinks(t *testing.T) {
	cost := func(dir string) float64 {
		deep := strings.Repeat("/a", 100)
		host := tree("/w/.git gitdir: "+dir+deep, "/x"+deep+"/", "/l -> /x")
		return testing.AllocsPerRun(1, func() {
			if _, err := Make(managed(t, "root=read /w=write"), permissions.Scope{Cwd: "/w"}, host, false); err != nil {
				t.Fatal(err)
			}
		})
	}
	direct, linked := cost("/x"), cost("/l")
	if linked > 3*direct {
		t.Errorf("%v allocations, and %v without the link", linked, direct)
	}
}
