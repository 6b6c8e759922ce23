package bwrap

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/plan"
	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

func TestBindsTellWhatMustBeAbsent(t *testing.T) {
	dir := t.TempDir()
	p := &plan.Plan{NoProc: true, Absent: []string{dir + "/gone"}}
	text, err := Binds(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckBinds(text, true); err != nil {
		t.Errorf("it is absent: %v", err)
	}
	if err := os.Mkdir(dir+"/gone", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CheckBinds(text, true); err == nil {
		t.Error("it is there, and nobody noticed")
	}
	if grants := ParseWall(text); len(grants) > 0 {
		t.Errorf("it is granted: %v", grants)
	}
}

// The checks notice a mask that bwrap has mounted elsewhere, and a bind of a file that the plan has
// not seen.
func TestBindsTellWhatMustBeMasked(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/secret", 0o000); err != nil {
		t.Fatal(err)
	}
	info, err := plan.HostView{}.Lstat(dir + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	id := plan.FileID{Dev: info.Dev, Ino: info.Ino}
	for _, id := range []plan.FileID{id, {}} {
		text, err := Binds(&plan.Plan{Mounts: []plan.Mount{{Kind: plan.EmptyDir, Target: dir + "/secret", ID: id}}})
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckBinds(text, true); err == nil {
			t.Errorf("%v: nothing is mounted on it, and nobody noticed", id)
		}
	}
	if _, err := Binds(&plan.Plan{Mounts: []plan.Mount{{Kind: plan.BindReadOnly, Source: dir, Target: dir, ID: id}}}); !errors.Is(err, plan.ErrAppeared) {
		t.Errorf("the source is another directory: %v", err)
	}
}

// bwrap makes one mount for each path. Scenario: /ws is writable, /ws/p is denied, and /ws/p/pub is
// read-only. The plan shows /ws/p/pub twice: below the mask and above it.
func TestBwrapMountsOnceForEachPlace(t *testing.T) {
	p := &plan.Plan{Mounts: []plan.Mount{
		{Kind: plan.BindWritable, Source: "/ws", Target: "/ws"},
		{Kind: plan.BindReadOnly, Source: "/ws/p/pub", Target: "/ws/p/pub"},
		{Kind: plan.EmptyDir, Target: "/ws/p", MountPoints: []plan.MountPoint{{Path: "pub"}}},
		{Kind: plan.BindReadOnly, Source: "/ws/p/pub", Target: "/ws/p/pub"},
		{Kind: plan.EmptyDir, Target: "/ws/q", MountPoints: []plan.MountPoint{{Path: "f", File: true}}},
		{Kind: plan.BindReadOnly, Source: "/ws/q/f", Target: "/ws/q/f"},
		{Kind: plan.Link, Source: "ws", Target: "/l"},
	}}
	args := strings.Join(Arguments(p, true), " ")
	const want = " --bind /ws /ws --perms 0000 --tmpfs /ws/p --dir /ws/p/pub --remount-ro /ws/p --ro-bind /ws/p/pub /ws/p/pub" +
		" --perms 0000 --tmpfs /ws/q --ro-bind /ws/q/f /ws/q/f --symlink ws /l --remount-ro /ws/q "
	if !strings.Contains(args, want) {
		t.Errorf("%s, want in it %s", args, want)
	}
}

// A shown file must be mounted at its path, and a read-only one must be read-only.
// Scenario: a file system of the host is mounted on it while bwrap works, is made
// read-only in its place, and is unmounted (campaign, seed 6535001687484).
func TestBindsTellWhatMustBeMounted(t *testing.T) {
	dir := t.TempDir()
	if err := errors.Join(os.Mkdir(dir+"/d", 0o755), os.Symlink("d", dir+"/l")); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		kind   plan.MountKind
		at     string
		refuse string
	}{
		{plan.BindWritable, "/proc", ""}, // a mount that can be written
		{plan.BindReadOnly, "/proc", "not read-only"},
		{plan.BindWritable, dir, "nothing is mounted there"},
		{plan.BindReadOnly, dir, "nothing is mounted there"},
	} {
		text, err := Binds(&plan.Plan{NoProc: true, Mounts: []plan.Mount{{Kind: tt.kind, Source: tt.at, Target: tt.at}}})
		if err != nil {
			t.Fatal(err)
		}
		err = CheckBinds(text, true)
		if (err != nil) != (tt.refuse != "") || err != nil && !strings.Contains(err.Error(), tt.refuse) {
			t.Errorf("%s, bind of kind %d: %v, want an error: %q", tt.at, tt.kind, err, tt.refuse)
		}
		if err := CheckBinds(text, false); err != nil {
			t.Errorf("%s, bind of kind %d, and nothing is mounted: %v", tt.at, tt.kind, err)
		}
	}
	// A link in place of a parent directory leads to the same directory.
	text, err := Binds(&plan.Plan{NoProc: true, Mounts: []plan.Mount{{Kind: plan.BindReadOnly, Source: dir + "/d", Target: dir + "/d"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Mkdir(dir+"/other", 0o755), os.Rename(dir+"/d", dir+"/other/d"), os.Symlink("other/d", dir+"/d")); err != nil {
		t.Fatal(err)
	}
	if err := CheckBinds(text, false); err == nil {
		t.Error("a link is followed")
	}
}

// A command of the same user can remove and restore the search permission of its directories. It
// cannot open other users' directories.
func TestBindsThatCannotBeSeen(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make directories of two users")
	}
	const user = 54321
	dir := t.TempDir()
	for name, uid := range map[string]int{"mine": user, "theirs": 0} {
		if err := errors.Join(os.MkdirAll(dir+"/"+name+"/d", 0o755), os.Chown(dir+"/"+name, uid, 0), os.Chmod(dir+"/"+name, 0)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Chmod(dir, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	defer asUser(t, user)()
	_, err := os.Stat(dir)
	testutil.Need(t, "directory for temporary files that all users can reach", err, os.ErrPermission)
	for _, line := range []string{"ro 1 2 ", "rw 1 2 ", "mask 1 2 0 "} {
		if err := CheckBinds([]byte(line+dir+"/mine/d\x00"), true); !errors.Is(err, os.ErrPermission) {
			t.Errorf("%sbelow a directory of the user: %v", line, err)
		}
		if err := CheckBinds([]byte(line+dir+"/theirs/d\x00"), true); err != nil {
			t.Errorf("%sbelow a directory of root's: %v", line, err)
		}
	}
}

// asUser makes the thread of a test run as an ordinary user.
func asUser(t *testing.T, uid int) (back func()) {
	t.Helper()
	runtime.LockOSThread()
	become := func(uid int) {
		keep := ^uintptr(0)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, keep, uintptr(uid), keep); errno != 0 {
			t.Fatal(errno)
		}
	}
	become(uid)
	return func() {
		become(0)
		runtime.UnlockOSThread()
	}
}

func TestWritableMounts(t *testing.T) {
	const binds = "rw 1 2 /ws\x00ro 1 3 /ws/.git\x00rw 1 4 /ws/.git/refs\x00mask 1 5 0 /ws/secret\x001 6 /other\x00absent /ws/gone\x00"
	for at, ok := range map[string]bool{
		"/ws": true, "/ws/mnt": true, "/ws/.git/refs/mnt": true, `/ws/a\040b`: true,
		"/ws/.git": false, "/ws/secret": false,
		"/ws/.git/mnt": false, "/ws/secret/mnt": false, "/other": false, "/wsx": false, "/": false, "/mnt/x": false,
		"/dev/shm": true, "/proc": true, "/gone": false,
	} {
		line := "90 80 0:50 / " + at + " %s,nosuid,relatime master:1 - tmpfs tmpfs rw\n"
		err := checkWritable([]byte(binds), strings.Replace(line, "%s", "rw", 1))
		if (err == nil) != ok {
			t.Errorf("%s is mounted writable: %v, want it accepted: %v", at, err, ok)
		}
		if err := checkWritable([]byte(binds), strings.Replace(line, "%s", "ro", 1)); err != nil {
			t.Errorf("%s is mounted read-only: %v", at, err)
		}
	}
}

// A mount that another mount hides cannot be written. The mounts are those of / (2), of /ws (3),
// which is writable, and of /ws/ro (4). Each line adds one mount.
func TestCoveredMounts(t *testing.T) {
	const binds = "rw 1 2 /ws\x00ro 1 3 /ws/ro\x00"
	const line = "%s 8:1 / %s,relatime - ext4 /dev/sda1 rw\n"
	for _, tt := range []struct {
		name   string
		mounts []string
		ok     bool
	}{
		{"nothing else", nil, true},
		{"with /ws, and covered by /ws/ro", []string{"5 3 /ws/ro/m rw", "6 4 /ws/ro/m ro"}, true},
		{"the same, and something below it", []string{"5 3 /ws/ro/m rw", "6 5 /ws/ro/m/n rw"}, true},
		{"with /ws/ro", []string{"5 3 /ws/ro/m ro", "6 4 /ws/ro/m rw"}, false},
		{"below what is covered elsewhere", []string{"5 3 /ws/ro/m ro", "6 4 /ws/ro/m/n rw"}, false},
		{"on /ws/ro", []string{"5 4 /ws/ro rw"}, false},
		{"on /ws/ro, and covered", []string{"5 4 /ws/ro rw", "6 5 /ws/ro ro"}, true},
		{"on what covers /ws/ro", []string{"5 4 /ws/ro ro", "6 5 /ws/ro/m rw"}, false},
		{"beside /ws", []string{"5 2 /m rw"}, false},
		{"beside /ws, and covered", []string{"5 2 /m rw", "6 5 /m ro"}, true},
		{"of two at one place of one mount, which can be either", []string{"5 2 /m rw", "6 2 /m ro"}, false},
		{"below a directory on which something is mounted", []string{"5 2 /m/n/o rw", "6 2 /m/n ro"}, true},
		{"below a directory in whose neighbour something is mounted", []string{"5 2 /m/n/o rw", "6 2 /m/nn ro", "7 2 /m/n/o/p ro"}, false},
		{"below a mount that is not in the list", []string{"6 5 /m/n rw"}, false},
		{"in a circle", []string{"5 6 /m/n rw", "6 5 /m ro"}, false},
		{"covered by what is mounted on the root", []string{"5 2 /m rw", "6 2 / ro"}, true},
	} {
		var text string
		for _, m := range append([]string{"2 1 / ro", "3 2 /ws rw", "4 3 /ws/ro ro"}, tt.mounts...) {
			f := strings.Fields(m)
			text += fmt.Sprintf(line, f[0]+" "+f[1], f[2]+" "+f[3])
		}
		if err := checkWritable([]byte(binds), text); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want it accepted: %v", tt.name, err, tt.ok)
		}
	}
}

// A path that is on a mount of the host has two mounts: the host's, and the plan's on top of it.
func TestPlacesOnMounts(t *testing.T) {
	const binds = "rw 1 2 /ws\x00rw 1 3 /ws/m\x00on /ws/m\x00"
	for _, tt := range []struct {
		name, mounts string
		ok           bool
	}{
		{"both", "4 3 /ws/m rw;5 4 /ws/m rw", true},
		{"the host's alone", "4 3 /ws/m rw", false},
		{"the host's alone, twice", "4 3 /ws/m rw;5 6 /ws/m rw;6 2 /ws rw", false},
		{"both, below what covers them", "4 3 /ws/m rw;5 4 /ws/m rw;6 3 /ws rw", false},
		{"none", "", false},
	} {
		text := "2 1 8:1 / / ro - ext4 / rw\n3 2 8:1 / /ws rw - ext4 / rw\n"
		for m := range strings.SplitSeq(tt.mounts, ";") {
			if f := strings.Fields(m); len(f) == 4 {
				text += fmt.Sprintf("%s %s 8:1 / %s %s - ext4 / rw\n", f[0], f[1], f[2], f[3])
			}
		}
		if err := checkWritable([]byte(binds), text); (err == nil) != tt.ok {
			t.Errorf("%s: %v, want it accepted: %v", tt.name, err, tt.ok)
		}
	}
}

// The mounted directory and the mount point have names with white space that the kernel does not
// escape.
func TestWritableMountsWithOddNames(t *testing.T) {
	const binds = "rw 1 2 /ws/a\vb\x00rw 1 3 /ws/\u3000rw\x00"
	for _, tt := range []struct {
		root, at string
		ok       bool
	}{
		{"/a\vb", "/ws/a\vb", true},
		{"/\u3000rw", "/ws/\u3000rw", true},
		{"/a\vb", "/usr/bin", false},
		{"/ws/\u00a0x", "/usr/bin", false},
		{"/ws/x\fy\frw", "/usr/bin", false},
		{"/", "/other\rrw,", false},
	} {
		line := "90 80 8:1 " + tt.root + " " + tt.at + " rw,relatime - ext4 /dev/sda1 rw\n"
		if err := checkWritable([]byte(binds), line); (err == nil) != tt.ok {
			t.Errorf("%q is mounted writable at %q: %v, want it accepted: %v", tt.root, tt.at, err, tt.ok)
		}
	}
	for _, text := range []string{"90 80 8:1 / /ws\n", "90 80 8:1 / /ws rw\n"} {
		if err := checkWritable([]byte(binds), text); err == nil {
			t.Errorf("accepted: %q", text)
		}
	}
}
