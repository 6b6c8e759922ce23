package plan

import (
	"fmt"
	"strings"
)

// Describe describes the plan for people.
func (plan *Plan) Describe() string {
	var b strings.Builder
	if plan.Confined {
		b.WriteString("mounts, in order:\n")
		switch plan.Root {
		case RootEmpty:
			b.WriteString("  /  empty, read-only\n")
		case RootWritable:
			b.WriteString("  /  the host's, writable\n")
		default:
			b.WriteString("  /  the host's, read-only\n")
		}
		fmt.Fprintf(&b, "  /dev  private: %s, pts, shm\n", strings.Join(Devices, " "))
		for _, m := range plan.Mounts {
			b.WriteString("  " + describe(m) + "\n")
		}
		switch {
		case plan.NoProc:
			b.WriteString("  /proc  empty\n")
		case plan.HostProc:
			b.WriteString("  /proc  the host's, read-only, because parts of it are covered and the kernel permits no new one: names and arguments\n" +
				"         of processes outside can be read, and not their memory, environment and files\n")
		default:
			b.WriteString("  /proc  private; the kernel's settings in it read-only\n")
		}
		b.WriteString("namespaces: user, mount, pid, ipc, uts")
		if plan.Network != NetworkOn {
			b.WriteString(", network")
		}
		b.WriteString("\nprivileges: no capabilities, no_new_privs\n")
	}
	for _, n := range plan.Undo {
		fmt.Fprintf(&b, "removed as soon as it appears: %s\n", n.Path)
	}
	return b.String()
}

func describe(m Mount) string {
	switch m.Kind {
	case BindReadOnly:
		text := m.Target + "  read-only"
		if m.Source != m.Target {
			text += ", shows " + m.Source
		}
		return text
	case BindWritable:
		return m.Target + "  writable"
	case Link:
		return m.Target + "  a link to " + m.Source
	default:
		text := m.Target + fmt.Sprintf("  masked, mode %03o", m.Mode)
		if m.Placeholder {
			text += ", must not be created"
		}
		return text
	}
}
