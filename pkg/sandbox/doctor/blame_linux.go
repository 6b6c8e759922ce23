package doctor

import (
	"cmp"
	"fmt"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// blame is a cause of a failure, with its remedy.
type blame struct{ cause, fix string }

// act is a kind of operation. The likely causes of a failure depend on the operation.
type act int

const (
	makingNamespaces act = iota // clone with CLONE_NEW*
	mappingUsers                // write to uid_map
	mounting                    // mount, of whatever kind
	mountingProc
)

// blames returns the likely causes of a failed act, the most likely first. The kernel
// does not report which of its mechanisms refused, so several can be suspects.
func (f *facts) blames(a act, errno syscall.Errno) []blame {
	var all []blame
	add := func(cause, fix string) { all = append(all, blame{cause, fix}) }
	denied := errno == unix.EPERM || errno == unix.EACCES
	switch {
	case errno == unix.ENOSPC && f.exhausted != "":
		name := "user.max_" + f.exhausted + "_namespaces"
		add("sysctl "+name+" is 0", sysctl(name, "15000"))
	case errno == unix.ENOSPC, errno == unix.EUSERS:
		add(fmt.Sprintf("the limit of namespaces is reached (user.max_user_namespaces is %d), or they are nested 32 deep", f.maxUserns),
			sysctl("user.max_user_namespaces", "15000")+"; inside of a container the limit is also that of its host")
	case errno == unix.EINVAL && a == makingNamespaces:
		kind := cmp.Or(f.missing, "user")
		add("the kernel was built without "+kind+" namespaces", "use a kernel with CONFIG_"+strings.ToUpper(kind)+"_NS=y")
	case errno == unix.ENOSYS && f.seccompMode == 2:
		all = append(all, f.seccomp())
	case errno == unix.ENOSYS:
		add("the kernel "+f.kernel+" is too old", "use Linux 5.12 or newer, or install bubblewrap, which does without")
	case !denied:
		return nil
	default:
		all = f.suspects(a)
	}
	return all
}

// suspects returns the mechanisms that may have refused with EPERM or EACCES.
func (f *facts) suspects(a act) []blame {
	var all []blame
	add := func(cause, fix string) { all = append(all, blame{cause, fix}) }
	admin := f.has(capSysAdmin)
	if a == makingNamespaces {
		if f.usernsClone == 0 && !admin {
			add("sysctl kernel.unprivileged_userns_clone is 0: ordinary users may not make user namespaces", sysctl("kernel.unprivileged_userns_clone", "1"))
		}
		if f.chroot {
			add("this process is in a chroot, where the kernel makes no user namespaces", "start codex outside of the chroot, or enter it by pivot_root, as systemd-nspawn and containers do")
		}
	}
	if a == mappingUsers && f.capabilities != 0 && !f.has(capSetfcap) {
		add("root without the capability SETFCAP may not map itself into a user namespace", f.inContainer(
			"run codex as an ordinary user, or give root the capability SETFCAP",
			"docker run --cap-add SETFCAP, or run codex as an ordinary user",
			"securityContext.capabilities.add: [SETFCAP], or runAsUser of an ordinary user"))
	}
	if a == mountingProc && len(f.masked) > 0 {
		add("parts of /proc are masked here ("+someOf(f.masked)+"), and the kernel does not allow a new /proc that would show them", f.inContainer(
			"unmount the file systems below /proc",
			"docker run --security-opt systempaths=unconfined",
			"securityContext.procMount: Unmasked"))
	}
	if f.apparmorUserns > 0 && !admin && f.profile == "" || strings.HasPrefix(f.profile, "unprivileged_userns") {
		add("sysctl kernel.apparmor_restrict_unprivileged_userns is 1: AppArmor takes the privileges of user namespaces from programs without a profile that grants them",
			f.apparmorProfile())
	}
	if f.seccompMode == 2 {
		all = append(all, f.seccomp())
	}
	if f.profile != "" && f.enforce && !strings.HasPrefix(f.profile, "unprivileged_userns") {
		add("this process is confined by the AppArmor profile "+f.profile, f.inContainer(
			"let the profile grant `userns,` and `mount,`, let it execute the launcher by `px` after this: "+f.apparmorProfile()+
				", or start codex unconfined: aa-exec -p unconfined",
			"docker run --security-opt apparmor=unconfined",
			"securityContext.appArmorProfile.type: Unconfined"))
	}
	if f.selinux != "" {
		add("SELinux is enforcing, and this process is "+f.selinux, f.inContainer(
			"look for the denial with ausearch -m avc -ts recent, and allow it by a policy module",
			"docker run --security-opt label=disable",
			"securityContext.seLinuxOptions.type: spc_t"))
	}
	if len(all) == 0 && f.nested {
		add("this program runs in a user namespace, whose owner permits no further ones", "start codex outside of it")
	}
	return all
}

// seccomp returns a seccomp filter as a cause.
func (f *facts) seccomp() blame {
	n := "a seccomp filter"
	if f.seccompFilters > 1 {
		n = fmt.Sprintf("%d seccomp filters", f.seccompFilters)
	}
	return blame{"this process is under " + n + ", of a container, a service manager or a sandbox of codex itself", f.inContainer(
		"start codex without it (systemd: SystemCallFilter=, RestrictNamespaces=; a sandbox of codex: codex-linux-sandbox --allow-nesting)",
		"docker run --security-opt seccomp=unconfined, or with a profile that allows clone, unshare, mount and the mount API",
		"securityContext.seccompProfile.type: Unconfined, or Localhost with a profile that allows clone, unshare, mount and the mount API")}
}

// shippedProfile is the profile that the packages write, and packaged is the directory of their programs.
const shippedProfile, packaged = "/etc/apparmor.d/codex-linux-sandbox", "/usr/lib/codex-exec-server/"

// apparmorProfile returns the command that grants this program and its launcher user namespaces. It
// loads the profile of the package, or writes one like those that Ubuntu has for browsers.
func (f *facts) apparmorProfile() string {
	if f.shipped && strings.HasPrefix(f.self, packaged) {
		return "sudo apparmor_parser -r " + shippedProfile
	}
	return fmt.Sprintf(`printf 'abi <abi/4.0>,\ninclude <tunables/global>\nprofile codex "%s{,-linux-sandbox}" flags=(unconfined) {\n  userns,\n}\n' `+
		`| sudo tee /etc/apparmor.d/codex && sudo apparmor_parser -r /etc/apparmor.d/codex`, f.self)
}

// inContainer returns the remedy for this kind of host: a plain host, Docker or Kubernetes.
func (f *facts) inContainer(host, docker, kubernetes string) string {
	switch f.container {
	case "":
		return host
	case "kubernetes":
		return kubernetes
	case "podman":
		return strings.ReplaceAll(docker, "docker run", "podman run")
	default:
		return docker
	}
}

// sysctl returns the command that changes a setting now and at every boot.
func sysctl(name, value string) string {
	return fmt.Sprintf("echo %s=%s | sudo tee -a /etc/sysctl.d/60-codex.conf && sudo sysctl --system", name, value)
}

// install returns the command that installs a package on this machine.
func (f *facts) install(name string) string {
	for _, id := range f.os {
		switch id {
		case "debian", "ubuntu":
			return "sudo apt-get install " + name
		case "fedora", "rhel", "centos":
			return "sudo dnf install " + name
		case "alpine":
			return "apk add " + name
		case "arch":
			return "sudo pacman -S " + name
		case "suse", "opensuse":
			return "sudo zypper install " + name
		case "nixos":
			return "add pkgs." + name + " to environment.systemPackages"
		}
	}
	return "install your system's package " + name
}

// someOf returns the first few names of a list.
func someOf(list []string) string {
	const few = 3
	if len(list) <= few {
		return strings.Join(list, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(list[:few], ", "), len(list)-few)
}
