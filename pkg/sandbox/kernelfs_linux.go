package sandbox

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// kernelFileSystems are the types of file systems whose files are settings,
// interfaces or objects of the kernel, and not somebody's data.
var kernelFileSystems = map[string]bool{
	"sysfs": true, "proc": true, "cgroup": true, "cgroup2": true, "cpuset": true, "resctrl": true,
	"debugfs": true, "tracefs": true, "securityfs": true, "selinuxfs": true, "smackfs": true, "apparmorfs": true,
	"bpf": true, "configfs": true, "pstore": true, "efivarfs": true, "binfmt_misc": true, "fusectl": true,
	"mqueue": true, "nsfs": true, "devpts": true, "devtmpfs": true, "binder": true, "functionfs": true,
	"rpc_pipefs": true, "nfsd": true, "dlmfs": true, "ocfs2_dlmfs": true, "xenfs": true, "gadgetfs": true,
	"openpromfs": true, "s390_hypfs": true, "spufs": true, "ipathfs": true, "ibmasmfs": true, "usbfs": true, "usbdevfs": true,
}

// KernelMounts returns where file systems of the kernel are mounted, without
// those that another mount hides or that the user cannot look at.
func (h HostView) KernelMounts() ([]string, error) {
	text, err := mountinfo()
	if err != nil {
		return nil, fmt.Errorf("find the file systems of the kernel: %w", err)
	}
	return kernelMounts(string(text), h)
}

// mountinfo reads the mounts of this process. Os.ReadFile takes three times as long:
// the file can be waited for, which the Go runtime starts threads for, and has no size,
// so that it is read in small pieces.
func mountinfo() ([]byte, error) {
	fd, err := unix.Open("/proc/self/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	const piece = 4 << 10 // the kernel gives no more at once
	text := make([]byte, 0, 4*piece)
	for n := 0; ; text = text[:len(text)+n] {
		text = slices.Grow(text, piece)
		err := retry(func() (err error) { n, err = unix.Read(fd, text[len(text):cap(text)]); return err })
		if err != nil || n == 0 {
			return text, err
		}
	}
}

// kernelMounts reads lines of mountinfo (proc_pid_mountinfo(5)).
func kernelMounts(text string, view permissions.View) ([]string, error) {
	var found []string
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		kind, _, _ := strings.Cut(tail, " ")
		if !ok || len(fields) < 5 {
			return nil, fmt.Errorf("find the file systems of the kernel: unknown line %q", line)
		}
		if !kernelFileSystems[kind] {
			continue
		}
		device, err := parseDevice(fields[2])
		if err != nil {
			return nil, fmt.Errorf("find the file systems of the kernel: unknown line %q: %w", line, err)
		}
		at := path.Clean(unescapeMount(fields[4]))
		if info, err := view.Lstat(at); err == nil && info.Dev == device {
			found = append(found, at)
		}
	}
	slices.SortFunc(found, shallowFirst)
	return slices.Compact(found), nil
}

// parseDevice reads the MAJOR:MINOR of a device. fmt.Sscanf would read it, too,
// but this runs at the start of every command.
func parseDevice(text string) (uint64, error) {
	before, after, _ := strings.Cut(text, ":")
	major, err := strconv.ParseUint(before, 10, 32)
	if err != nil {
		return 0, err
	}
	minor, err := strconv.ParseUint(after, 10, 32)
	return unix.Mkdev(uint32(major), uint32(minor)), err
}
