// Command containers writes the configuration of a container (config.json of the OCI) as engines make it, for
// scripts/containers. The filter of system calls is the one that the Moby project publishes for Docker.
//
//	containers -kind KIND -uid N -rootfs DIR [-bind DIR]... -- COMMAND...
//
// KIND is docker (`docker run` without options) or kubernetes (the Pod Security Standard "restricted", with a
// read-only root). A bound directory is writable, and has the same path inside. The configuration goes to the standard output.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"strings"

	"github.com/moby/profiles/seccomp"
	"github.com/opencontainers/runtime-spec/specs-go"
)

// Docker gives root these capabilities, and covers these parts of /proc and /sys. Kubernetes covers the same.
var (
	capabilities = strings.Fields(`CAP_CHOWN CAP_DAC_OVERRIDE CAP_FSETID CAP_FOWNER CAP_MKNOD CAP_NET_RAW CAP_SETGID CAP_SETUID
		CAP_SETFCAP CAP_SETPCAP CAP_NET_BIND_SERVICE CAP_SYS_CHROOT CAP_KILL CAP_AUDIT_WRITE`)
	masked = strings.Fields(`/proc/acpi /proc/asound /proc/interrupts /proc/kcore /proc/keys /proc/latency_stats /proc/sched_debug
		/proc/scsi /proc/timer_list /proc/timer_stats /sys/devices/virtual/powercap /sys/firmware`)
	readOnly = strings.Fields("/proc/bus /proc/fs /proc/irq /proc/sys /proc/sysrq-trigger")
)

func main() {
	kind := flag.String("kind", "", "docker or kubernetes")
	uid := flag.Uint("uid", 0, "the user and group inside")
	rootfs := flag.String("rootfs", "", "the root directory of the container")
	var binds []string
	flag.Func("bind", "a directory that is shown, writable", func(dir string) error { binds = append(binds, dir); return nil })
	flag.Parse()
	spec, err := container(*kind, uint32(*uid), *rootfs, binds, flag.Args())
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(spec)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "containers:", err)
		os.Exit(1)
	}
}

func container(kind string, uid uint32, rootfs string, binds, command []string) (*specs.Spec, error) {
	mount := func(kind, target string, options ...string) specs.Mount {
		return specs.Mount{Type: kind, Source: kind, Destination: target, Options: options}
	}
	s := &specs.Spec{
		Version:  "1.0.2",
		Hostname: "container",
		Root:     &specs.Root{Path: rootfs},
		Process: &specs.Process{
			Args: command, Cwd: "/", User: specs.User{UID: uid, GID: uid},
			Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "container=oci"},
		},
		Mounts: []specs.Mount{
			mount("proc", "/proc", "nosuid", "noexec", "nodev"),
			mount("tmpfs", "/dev", "nosuid", "strictatime", "mode=755", "size=65536k"),
			mount("devpts", "/dev/pts", "nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"),
			mount("mqueue", "/dev/mqueue", "nosuid", "noexec", "nodev"),
			mount("tmpfs", "/dev/shm", "nosuid", "noexec", "nodev", "mode=1777", "size=65536k"),
			mount("sysfs", "/sys", "nosuid", "noexec", "nodev", "ro"),
			// As in an image, setuid programs and devices work there: attacks need them.
			mount("tmpfs", "/tmp", "mode=1777"),
			mount("tmpfs", "/var/tmp", "mode=1777"),
		},
		Linux: &specs.Linux{MaskedPaths: masked, ReadonlyPaths: readOnly},
	}
	for _, dir := range binds {
		s.Mounts = append(s.Mounts, specs.Mount{Type: "bind", Source: dir, Destination: dir, Options: []string{"rbind", "rw"}})
	}
	for _, n := range []specs.LinuxNamespaceType{specs.PIDNamespace, specs.NetworkNamespace, specs.IPCNamespace, specs.UTSNamespace, specs.MountNamespace} {
		s.Linux.Namespaces = append(s.Linux.Namespaces, specs.LinuxNamespace{Type: n})
	}
	allowed := &specs.LinuxCapabilities{}
	switch kind {
	case "docker":
		allowed.Bounding = capabilities
		if uid == 0 {
			allowed.Effective, allowed.Permitted = capabilities, capabilities
		}
	case "kubernetes":
		s.Process.NoNewPrivileges, s.Root.Readonly = true, true
	default:
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
	s.Process.Capabilities = allowed
	var err error
	s.Linux.Seccomp, err = seccomp.GetDefaultProfile(s)
	return s, err
}
