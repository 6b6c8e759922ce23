package plan

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/sandbox/mountinfo"
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

// KernelMounts returns the mount points of the kernel's file systems, without
// those that another mount hides or that the user cannot access.
func (h HostView) KernelMounts() ([]string, error) {
	text, err := mountinfo.Read("self")
	if err != nil {
		return nil, fmt.Errorf("find the file systems of the kernel: %w", err)
	}
	return kernelMounts(string(text), h)
}

// kernelMounts finds those in a mountinfo.
func kernelMounts(text string, view permissions.View) ([]string, error) {
	mounts, err := mountinfo.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("find the file systems of the kernel: %w", err)
	}
	var found []string
	for _, m := range mounts {
		if !kernelFileSystems[m.Kind] {
			continue
		}
		device, err := parseDevice(m.Device)
		if err != nil {
			return nil, fmt.Errorf("find the file systems of the kernel: unknown device of %s: %w", m.At, err)
		}
		at := path.Clean(m.At)
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
