//go:build linux

package launcher

import (
	"fmt"
	"io"
	"strings"

	"codex.internal/pkg/jsonwire"
	"codex.internal/pkg/sandbox"
)

// explainTo prints what would be enforced, and by which backend.
func (l *launch) explainTo(w io.Writer) error {
	var b strings.Builder
	plan := l.plan
	switch {
	case l.legacyLandlock:
		b.WriteString("backend: landlock, in the legacy mode: metadata is not protected\n")
	case !plan.Confined:
		b.WriteString("backend: none: everything may be written\n")
	default:
		b.WriteString("backend: " + l.choose() + "\n")
	}
	if plan.Confined {
		b.WriteString("mounts, in order:\n")
		switch plan.Root {
		case sandbox.RootEmpty:
			b.WriteString("  /  empty, read-only\n")
		case sandbox.RootWritable:
			b.WriteString("  /  the host's, writable\n")
		default:
			b.WriteString("  /  the host's, read-only\n")
		}
		fmt.Fprintf(&b, "  /dev  private: %s, pts, shm\n", strings.Join(devices[:], " "))
		for _, m := range plan.Mounts {
			b.WriteString("  " + describe(m) + "\n")
		}
		if plan.NoProc {
			b.WriteString("  /proc  empty\n")
		} else {
			b.WriteString("  /proc  private; the kernel's settings in it read-only\n")
		}
		b.WriteString("namespaces: user, mount, pid, ipc, uts")
		if plan.Network != sandbox.NetworkOn {
			b.WriteString(", network")
		}
		b.WriteString("\nprivileges: no capabilities, no_new_privs\n")
	}
	for _, name := range plan.Undo {
		fmt.Fprintf(&b, "removed as soon as it appears: %s\n", name)
	}
	fmt.Fprintf(&b, "network: %s\n", [...]string{"off", "on", "only the proxies of the environment"}[plan.Network])
	if plan.Unfiltered {
		b.WriteString("system calls: not filtered\n")
	} else {
		r := rules{network: plan.Network, nesting: l.nesting}
		fmt.Fprintf(&b, "system calls: %d instructions of filter; refused:\n", len(r.filter()))
		b.WriteString("  ptrace, process_vm_*, io_uring_*, keyctl, add_key, request_key, bpf, userfaultfd,\n" +
			"  perf_event_open, kexec_*, *_module, open_by_handle_at, ioctl TIOCSTI and TIOCLINUX,\n" +
			"  other architectures and x32\n")
		if !l.nesting {
			b.WriteString("  mount, umount, pivot_root, setns, chroot, the mount API, new namespaces, clone3\n")
		}
		switch plan.Network {
		case sandbox.NetworkOff:
			b.WriteString("  sockets that are not of the Unix family, connect, accept, bind, listen, sendto,\n" +
				"  sendmmsg, recvmmsg, shutdown, getpeername, getsockname, getsockopt, setsockopt\n")
		case sandbox.NetworkProxy:
			b.WriteString("  sockets that are not of the IPv4 or IPv6 family\n")
		}
	}
	fmt.Fprintf(&b, "directory: %s\n", l.commandCwd)
	_, err := io.WriteString(w, b.String())
	return err
}

func describe(m sandbox.Mount) string {
	switch m.Kind {
	case sandbox.BindReadOnly:
		text := m.Target + "  read-only"
		if m.Source != m.Target {
			text += ", shows " + m.Source
		}
		return text
	case sandbox.BindWritable:
		return m.Target + "  writable"
	case sandbox.Link:
		return m.Target + "  a link to " + m.Source
	default:
		text := m.Target + fmt.Sprintf("  masked, mode %03o", m.Mode)
		if m.Cover {
			text += ", must not be created"
		}
		return text
	}
}

// choose says which backend would be used, and why.
func (l *launch) choose() string {
	names := order
	if l.backend != "auto" {
		names = []string{l.backend}
	}
	var reasons []string
	for _, name := range names {
		err := backends[name].refuse(l)
		if err == nil {
			err = backends[name].probe()
		}
		if err == nil {
			if len(reasons) == 0 {
				return name
			}
			return name + " (" + strings.Join(reasons, "; ") + ")"
		}
		reasons = append(reasons, name+": "+err.Error())
	}
	return "none; nothing would run (" + strings.Join(reasons, "; ") + ")"
}

// probeAll prints, as one JSON object, which backends work on this host. The
// server and `codex doctor` read it.
func probeAll(w io.Writer) (int, error) {
	b := []byte(`{"backends":[`)
	for i, name := range order {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"name":`...)
		b = jsonwire.AppendString(b, name)
		err := backends[name].probe()
		b = append(b, `,"works":`...)
		b = jsonwire.AppendBool(b, err == nil)
		if err != nil {
			b = append(b, `,"reason":`...)
			b = jsonwire.AppendString(b, err.Error())
		}
		b = append(b, '}')
	}
	_, err := w.Write(append(b, "]}\n"...))
	return 0, err
}
