package plan

import (
	"errors"
	"os"
	"slices"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// devices is a host that reports devices of some paths.
type devices struct {
	memory
	of map[string]uint64
}

func (d devices) Lstat(name string) (permissions.Info, error) {
	info, err := d.memory.Lstat(name)
	info.Dev = d.of[name]
	return info, err
}

func TestKernelMounts(t *testing.T) {
	host := devices{tree("/sys/", "/a b/", "/hidden/"), map[string]uint64{
		"/sys": unix.Mkdev(0, 21), "/a b": unix.Mkdev(0, 300), "/hidden": unix.Mkdev(8, 1), "/": unix.Mkdev(8, 1),
	}}
	got, err := kernelMounts(`22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/root rw
23 22 0:21 / /sys rw,nosuid shared:7 - sysfs sysfs rw
24 22 0:300 /x　y z /a\040b rw - cgroup2 none rw
25 22 0:21 / /hidden rw - sysfs sysfs rw
26 22 0:9 / /missing rw - proc proc rw
`, host)
	if want := []string{"/a b", "/sys"}; err != nil || !slices.Equal(got, want) {
		t.Errorf("%q %v, want %q", got, err, want)
	}
	for _, text := range []string{"22 1 8:1 / / rw\n", "22 1 x / /sys rw - sysfs sysfs rw\n"} {
		if got, err := kernelMounts(text, host); err == nil {
			t.Errorf("%q: got %q, want an error", text, got)
		}
	}
	if got, err := (HostView{}).KernelMounts(); err != nil || !slices.Contains(got, "/proc") {
		t.Errorf("of this machine: %q %v", got, err)
	}
}

func TestIsTemporary(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Symlink("/", dir+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{
		dir: true, "/tmp": true, dir + "/missing": true,
		"/": false, "//": false, "/usr/..": false, "/etc": false, "/usr": false, dir + "/link": false,
	} {
		if got := IsTemporary(name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}

// TestTemporaryLinks: in a shared directory, another user puts a link to a
// directory of the user at the path of $TMPDIR.
func TestTemporaryLinks(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make links of other users")
	}
	dir := t.TempDir()
	for _, name := range []string{"mine", "theirs"} {
		if err := errors.Join(os.Mkdir(dir+"/to-"+name, 0o700), os.Symlink("to-"+name, dir+"/"+name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(os.Lchown(dir+"/theirs", 65534, 65534), os.Symlink("theirs", dir+"/over"), os.Mkdir(dir+"/to-theirs/in", 0o700)); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"mine": true, "theirs": false, "over": false, "theirs/in": false, "theirs/missing": false, "to-theirs": true} {
		if got := IsTemporary(dir + "/" + name); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
