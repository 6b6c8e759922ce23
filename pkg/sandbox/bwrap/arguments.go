package bwrap

import (
	"fmt"
	"os"
	"path"
	"slices"

	"codex.internal/pkg/sandbox/plan"
)

// devSize is the most that a command can store in /dev/shm, in bytes.
const devSize = "536870912"

// EmptyFD stands for a descriptor of an empty file. Each use needs its own descriptor.
const EmptyFD = "EMPTY"

// Refusal returns an error that names the part of a plan that bwrap cannot enforce, or nil. bwrap
// follows symbolic links, so it cannot mount a link on itself.
func Refusal(p *plan.Plan) error {
	for _, m := range p.Mounts {
		if m.Symlink {
			return fmt.Errorf("bwrap cannot prevent the symbolic link %s from being replaced", m.Target)
		}
	}
	return nil
}

// Arguments returns the arguments of bwrap for the plan. The caller must replace each EmptyFD in
// them by the number of a descriptor. sized means that bwrap has --size (from 0.7.0 on). Without
// --size, /dev/shm has no limit.
func Arguments(p *plan.Plan, sized bool) []string {
	args := []string{"--die-with-parent", "--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--cap-drop", "ALL"}
	if p.OwnNetwork() {
		args = append(args, "--unshare-net")
	}
	switch p.Root {
	case plan.RootEmpty:
		args = append(args, "--perms", "0755", "--tmpfs", "/")
	case plan.RootWritable:
		args = append(args, "--bind", "/", "/")
	default:
		args = append(args, "--ro-bind", "/", "/")
	}
	args = append(args, "--dev", "/dev")
	args = append(args, "--perms", "1777")
	if sized {
		args = append(args, "--size", devSize)
	}
	args = append(args, "--tmpfs", "/dev/shm")
	last := lastAt(p)
	var filled []string // masks for which bwrap makes files to mount on
	for i, m := range p.Mounts {
		if m.Kind != plan.Link && last[m.Target] != i {
			continue
		}
		args = append(args, mountArguments(m)...)
		if m.Kind != plan.EmptyDir {
			continue
		}
		if slices.ContainsFunc(m.MountPoints, func(h plan.MountPoint) bool { return h.File }) {
			filled = append(filled, "--remount-ro", m.Target)
		} else {
			args = append(args, "--remount-ro", m.Target)
		}
	}
	args = append(args, filled...)
	if p.NoProc {
		if p.Root != plan.RootEmpty {
			args = append(args, "--perms", "0555", "--tmpfs", "/proc", "--remount-ro", "/proc")
		}
	} else {
		args = append(args, "--proc", "/proc")
		for _, name := range plan.HostOwned {
			if _, err := os.Stat("/proc/" + name); err == nil {
				args = append(args, "--ro-bind", "/proc/"+name, "/proc/"+name)
			}
		}
	}
	if p.Root == plan.RootEmpty {
		args = append(args, "--remount-ro", "/")
	}
	return args
}

// lastAt returns the last mount at each target, which hides the earlier ones there. The earlier
// mounts are left out. bwrap then makes one mount for each path, so the second stage notices if
// bwrap has mounted it elsewhere.
func lastAt(p *plan.Plan) map[string]int {
	last := make(map[string]int, len(p.Mounts))
	for i, m := range p.Mounts {
		if m.Kind != plan.Link {
			last[m.Target] = i
		}
	}
	return last
}

func mountArguments(m plan.Mount) []string {
	mode := fmt.Sprintf("%04o", m.Mode)
	switch m.Kind {
	case plan.BindReadOnly:
		return []string{"--ro-bind", m.Source, m.Target}
	case plan.BindWritable:
		return []string{"--bind", m.Source, m.Target}
	case plan.Link:
		return []string{"--symlink", m.Source, m.Target}
	case plan.EmptyFile:
		// The mask is an empty file that cannot be opened. /dev/null would not do, because it can
		// be opened.
		return []string{"--perms", mode, "--ro-bind-data", EmptyFD, m.Target}
	default:
		// bwrap creates a file for the mount point when something is mounted on it. --file would be
		// unsafe. Scenario: another command replaces a parent directory by a link to a file of the
		// user. --file would empty that file, wherever it is.
		args := []string{"--perms", mode, "--tmpfs", m.Target}
		for _, h := range m.MountPoints {
			if !h.File {
				args = append(args, "--dir", path.Join(m.Target, h.Path))
			}
		}
		return args
	}
}
