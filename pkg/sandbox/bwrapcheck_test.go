//go:build linux

package sandbox

import (
	"errors"
	"os"
	"strings"
	"testing"
)

func TestBindsTellWhatMustBeAbsent(t *testing.T) {
	dir := t.TempDir()
	plan := &Plan{Mounts: []Mount{{Kind: BindWritable, Source: dir, Target: dir}}, Absent: []string{dir + "/gone"}}
	text, err := plan.Binds()
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

// A mask that bwrap has mounted elsewhere is noticed, and so is a bind of what
// the plan has not seen.
func TestBindsTellWhatMustBeMasked(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/secret", 0o000); err != nil {
		t.Fatal(err)
	}
	info, err := HostView{}.Lstat(dir + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	id := FileID{info.Dev, info.Ino}
	for _, id := range []FileID{id, {}} {
		text, err := (&Plan{Mounts: []Mount{{Kind: EmptyDir, Target: dir + "/secret", ID: id}}}).Binds()
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckBinds(text, true); err == nil {
			t.Errorf("%v: nothing is mounted on it, and nobody noticed", id)
		}
	}
	if _, err := (&Plan{Mounts: []Mount{{Kind: BindReadOnly, Source: dir, Target: dir, ID: id}}}).Binds(); !errors.Is(err, ErrAppeared) {
		t.Errorf("the source is another directory: %v", err)
	}
	if _, err := takeStub(dir+"/new", true, id); !errors.Is(err, ErrAppeared) {
		t.Errorf("the placeholder would be in another directory: %v", err)
	}
}

// What is shown read-only must be so. Scenario: a file system of the host arrives on it
// while bwrap works, is made read-only in its place, and leaves (campaign, seed
// 6535001687484).
func TestBindsTellWhatMustBeReadOnly(t *testing.T) {
	dir := t.TempDir() // can be written
	for kind, refused := range map[MountKind]bool{BindReadOnly: true, BindWritable: false} {
		text, err := (&Plan{Mounts: []Mount{{Kind: kind, Source: dir, Target: dir}}}).Binds()
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckBinds(text, true); (err != nil) != refused {
			t.Errorf("bind of kind %d: %v, want an error: %v", kind, err, refused)
		}
		if err := CheckBinds(text, false); err != nil {
			t.Errorf("bind of kind %d, and nothing is mounted: %v", kind, err)
		}
	}
}

func TestWritableMounts(t *testing.T) {
	const binds = "rw 1 2 /ws\x00ro 1 3 /ws/.git\x00rw 1 4 /ws/.git/refs\x00mask 1 5 0 /ws/secret\x001 6 /other\x00absent /ws/gone\x00"
	for at, ok := range map[string]bool{
		"/ws": true, "/ws/mnt": true, "/ws/.git/refs/mnt": true, `/ws/a\040b`: true,
		"/ws/.git": true, "/ws/secret": true, // CheckBinds looks at what is seen there
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

// Names with white space that the kernel does not escape, in the directory that is
// mounted and in the mount point.
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
