package doctor

import (
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"
)

// host makes the file tree of a host; a text that begins with "-> " is a link.
func host(files map[string]string) fs.FS {
	tree := fstest.MapFS{}
	for name, text := range files {
		if to, ok := strings.CutPrefix(text, "-> "); ok {
			tree[name] = &fstest.MapFile{Data: []byte(to), Mode: fs.ModeSymlink | 0o777}
		} else {
			tree[name] = &fstest.MapFile{Data: []byte(text)}
		}
	}
	return tree
}

func TestFactsOfHosts(t *testing.T) {
	for name, tt := range map[string]struct {
		files map[string]string
		check func(f *facts) bool
	}{
		"what cannot be read is unset": {nil, func(f *facts) bool {
			return f.usernsClone == unset && f.maxUserns == unset && f.apparmorUserns == unset && f.inotifyInstances == unset &&
				f.profile == "" && !f.chroot && !f.nested && f.cgroup == "" && f.container == ""
		}},
		"settings of several digits": {map[string]string{
			"proc/sys/kernel/unprivileged_userns_clone": "0\n", "proc/sys/user/max_user_namespaces": "96365\n",
			"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1\n", "proc/sys/fs/inotify/max_user_instances": "128\n",
		}, func(f *facts) bool {
			return f.usernsClone == 0 && f.maxUserns == 96365 && f.apparmorUserns == 1 && f.inotifyInstances == 128
		}},
		"a setting that is no number": {map[string]string{"proc/sys/user/max_user_namespaces": "many\n"}, func(f *facts) bool { return f.maxUserns == unset }},
		"status": {map[string]string{
			"proc/self/status": "Name:\tcodex\nCapEff:\t0000000080200000\nNoNewPrivs:\t1\nSeccomp:\t2\nSeccomp_filters:\t3\n",
		}, func(f *facts) bool {
			return f.has(capSysAdmin) && f.has(capSetfcap) && !f.has(0) && f.seccompMode == 2 && f.seccompFilters == 3
		}},
		"no AppArmor": {map[string]string{"proc/self/attr/current": "unconfined\n"}, func(f *facts) bool { return f.profile == "" }},
		"Docker's profile": {map[string]string{"proc/self/attr/current": "docker-default (enforce)\n"},
			func(f *facts) bool { return f.profile == "docker-default (enforce)" && f.enforce }},
		"a profile that only complains": {map[string]string{"proc/self/attr/current": "snap.code.code (complain)\n"},
			func(f *facts) bool { return f.profile != "" && !f.enforce }},
		"a profile that does not confine": {map[string]string{"proc/self/attr/current": "chrome (unconfined)\n"}, func(f *facts) bool { return f.profile == "" }},
		"AppArmor's own file comes first": {map[string]string{"proc/self/attr/apparmor/current": "a (enforce)\n", "proc/self/attr/current": "_\n"},
			func(f *facts) bool { return f.profile == "a (enforce)" }},
		"an enforcing SELinux": {map[string]string{"proc/self/attr/current": "system_u:system_r:container_t:s0:c1,c2\x00", "sys/fs/selinux/enforce": "1"},
			func(f *facts) bool { return f.selinux == "system_u:system_r:container_t:s0:c1,c2" && f.profile == "" }},
		"a permissive SELinux": {map[string]string{"proc/self/attr/current": "system_u:system_r:container_t:s0\x00", "sys/fs/selinux/enforce": "0"},
			func(f *facts) bool { return f.selinux == "" }},
		"security modules":          {map[string]string{"sys/kernel/security/lsm": "capability,yama,apparmor"}, func(f *facts) bool { return slices.Equal(f.lsms, []string{"capability", "yama", "apparmor"}) }},
		"the first user namespace":  {map[string]string{"proc/self/uid_map": "         0          0 4294967295\n"}, func(f *facts) bool { return !f.nested }},
		"a nested user namespace":   {map[string]string{"proc/self/uid_map": "         0       1000          1\n"}, func(f *facts) bool { return f.nested }},
		"a map of more than a line": {map[string]string{"proc/self/uid_map": "0 1000 1\n1 100000 65536\n"}, func(f *facts) bool { return f.nested }},
		"a masked /proc": {map[string]string{"proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n" +
			"21 20 0:5 / /proc rw - proc proc rw\n22 21 0:6 / /proc/acpi ro - tmpfs tmpfs ro\n" +
			"23 21 0:7 / /proc/sys/fs/binfmt_misc rw - binfmt_misc binfmt_misc rw\n"},
			func(f *facts) bool { return slices.Equal(f.masked, []string{"/proc/acpi"}) && !f.chroot }},
		"a chroot into a plain directory": {map[string]string{"proc/self/mountinfo": "21 20 0:5 / /proc rw - proc proc rw\n"}, func(f *facts) bool { return f.chroot }},
		"a chroot onto a mount": {map[string]string{
			"proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "proc/1/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n30 20 8:1 /jail /jail rw - ext4 /dev/sda1 rw\n",
			"proc/self/ns/mnt": "-> mnt:[1]", "proc/1/ns/mnt": "-> mnt:[1]",
		}, func(f *facts) bool { return f.chroot }},
		"mounts of one's own are no chroot": {map[string]string{
			"proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "proc/1/mountinfo": "",
			"proc/self/ns/mnt": "-> mnt:[2]", "proc/1/ns/mnt": "-> mnt:[1]",
		}, func(f *facts) bool { return !f.chroot }},
		"cgroup v2": {map[string]string{"proc/self/cgroup": "0::/user.slice/a\n",
			"proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 20 0:9 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
			func(f *facts) bool { return f.cgroup == "/sys/fs/cgroup/user.slice/a" }},
		"a cgroup mount that shows a part": {map[string]string{"proc/self/cgroup": "0::/docker/b\n",
			"proc/self/mountinfo": "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n31 20 0:9 /docker/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
			func(f *facts) bool { return f.cgroup == "/sys/fs/cgroup" }},
		"a cgroup mount that shows another part": {map[string]string{"proc/self/cgroup": "0::/docker/bb\n",
			"proc/self/mountinfo": "31 20 0:9 /docker/b /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"},
			func(f *facts) bool { return f.cgroup == "" }},
		"Docker":     {map[string]string{".dockerenv": ""}, func(f *facts) bool { return f.container == "docker" }},
		"Podman":     {map[string]string{"run/.containerenv": ""}, func(f *facts) bool { return f.container == "podman" }},
		"Kubernetes": {map[string]string{".dockerenv": "", "var/run/secrets/kubernetes.io/x": ""}, func(f *facts) bool { return f.container == "kubernetes" }},
		"a machine made of an image": {map[string]string{".dockerenv": "", "proc/self/ns/pid": "-> pid:[4026531836]",
			"proc/self/ns/uts": "-> uts:[4026531838]", "proc/self/ns/ipc": "-> ipc:[4026531839]"}, func(f *facts) bool { return f.container == "" }},
		"a distribution and its kin": {map[string]string{"etc/os-release": "NAME=x\nID_LIKE=\"ubuntu debian\"\nID=linuxmint\n"},
			func(f *facts) bool { return slices.Equal(f.os, []string{"linuxmint", "ubuntu", "debian"}) }},
	} {
		if f := readFacts(host(tt.files)); !tt.check(f) {
			t.Errorf("%s: got %+v, want tt.check(f)", name, f)
		}
	}
}

func TestWhoForbids(t *testing.T) {
	const filters = "Seccomp:\t2\n"
	for name, tt := range map[string]struct {
		files  map[string]string
		act    act
		errno  syscall.Errno
		causes []string // a part of each, in order
		fixes  []string
	}{
		"Debian's sysctl": {map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0"}, makingNamespaces, unix.EPERM,
			[]string{"kernel.unprivileged_userns_clone is 0"}, []string{"kernel.unprivileged_userns_clone=1"}},
		"not for root": {map[string]string{"proc/sys/kernel/unprivileged_userns_clone": "0", "proc/self/status": "CapEff:\t000001ffffffffff\n"}, makingNamespaces, unix.EPERM, nil, nil},
		"a limit of 0": {map[string]string{"proc/sys/user/max_user_namespaces": "0"}, makingNamespaces, unix.ENOSPC,
			[]string{"user.max_user_namespaces is 0"}, []string{"user.max_user_namespaces=15000"}},
		"another limit of 0": {map[string]string{"proc/sys/user/max_net_namespaces": "0"}, makingNamespaces, unix.ENOSPC,
			[]string{"user.max_net_namespaces is 0"}, []string{"user.max_net_namespaces=15000"}},
		"a limit reached": {map[string]string{"proc/sys/user/max_user_namespaces": "7"}, makingNamespaces, unix.ENOSPC,
			[]string{"user.max_user_namespaces is 7"}, []string{"user.max_user_namespaces"}},
		"Ubuntu's sysctl": {map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1"}, mappingUsers, unix.EACCES,
			[]string{"kernel.apparmor_restrict_unprivileged_userns is 1"}, []string{"| sudo tee /etc/apparmor.d/codex && sudo apparmor_parser -r /etc/apparmor.d/codex"}},
		"Ubuntu's sysctl, and the package's profile": {map[string]string{"proc/sys/kernel/apparmor_restrict_unprivileged_userns": "1",
			"etc/apparmor.d/codex-linux-sandbox": ""}, makingNamespaces, unix.EPERM,
			[]string{"kernel.apparmor_restrict_unprivileged_userns is 1"}, []string{"sudo apparmor_parser -r /etc/apparmor.d/codex-linux-sandbox"}},
		"a profile without userns": {map[string]string{"proc/self/attr/current": "confined (enforce)"}, makingNamespaces, unix.EACCES,
			[]string{"confined (enforce)"}, []string{"`px`"}},
		"a filter": {map[string]string{"proc/self/status": filters}, makingNamespaces, unix.EPERM,
			[]string{"a seccomp filter"}, []string{"--allow-nesting"}},
		"a filter that says there is no such call": {map[string]string{"proc/self/status": filters}, mounting, unix.ENOSYS,
			[]string{"a seccomp filter"}, []string{"SystemCallFilter"}},
		"an old kernel": {map[string]string{"proc/sys/kernel/osrelease": "5.4.0\n"}, mounting, unix.ENOSYS, []string{"5.4.0 is too old"}, []string{"5.12"}},
		"Docker has two": {map[string]string{".dockerenv": "", "proc/self/status": filters, "proc/self/attr/current": "docker-default (enforce)"}, mounting, unix.EPERM,
			[]string{"a seccomp filter", "docker-default (enforce)"}, []string{"seccomp=unconfined", "apparmor=unconfined"}},
		"Kubernetes": {map[string]string{"run/secrets/kubernetes.io/x": "", "proc/self/status": filters}, makingNamespaces, unix.EPERM,
			[]string{"a seccomp filter"}, []string{"securityContext.seccompProfile.type: Unconfined"}},
		"Podman": {map[string]string{"run/.containerenv": "", "proc/self/status": filters}, makingNamespaces, unix.EPERM,
			[]string{"a seccomp filter"}, []string{"podman run --security-opt seccomp=unconfined"}},
		"root without SETFCAP": {map[string]string{"proc/self/status": "CapEff:\t0000000000200000\n"}, mappingUsers, unix.EPERM,
			[]string{"SETFCAP"}, []string{"ordinary user"}},
		"an ordinary user needs no SETFCAP": {map[string]string{"proc/self/status": "CapEff:\t0000000000000000\n"}, mappingUsers, unix.EPERM, nil, nil},
		"a masked /proc": {map[string]string{".dockerenv": "", "proc/self/mountinfo": "1 1 8:1 / / rw - ext4 x rw\n22 21 0:6 / /proc/acpi ro - tmpfs tmpfs ro\n"}, mountingProc, unix.EPERM,
			[]string{"/proc/acpi"}, []string{"systempaths=unconfined"}},
		"a chroot": {map[string]string{"proc/self/mountinfo": "21 20 0:5 / /proc rw - proc proc rw\n"}, makingNamespaces, unix.EPERM,
			[]string{"chroot"}, []string{"pivot_root"}},
		"a kernel without": {nil, makingNamespaces, unix.EINVAL, []string{"without user namespaces"}, []string{"CONFIG_USER_NS"}},
		"somebody unknown": {nil, makingNamespaces, unix.EPERM, nil, nil},
		"another error":    {map[string]string{"proc/self/status": filters}, mounting, unix.ENOMEM, nil, nil},
		"nothing":          {map[string]string{"proc/self/status": filters}, mounting, 0, nil, nil},
	} {
		f := readFacts(host(tt.files))
		f.self = packaged + "codex"
		all := f.blames(tt.act, tt.errno)
		bad := len(all) != len(tt.causes)
		for i := 0; !bad && i < len(all); i++ {
			bad = !strings.Contains(all[i].cause, tt.causes[i]) || !strings.Contains(all[i].fix, tt.fixes[i])
		}
		if bad {
			t.Errorf("%s: got %+v, want bad false", name, all)
		}
	}
}

func TestPackagesOfDistributions(t *testing.T) {
	for id, want := range map[string]string{
		"ID=debian": "apt-get", "ID=linuxmint\nID_LIKE=ubuntu": "apt-get", "ID=rocky\nID_LIKE=\"rhel centos fedora\"": "dnf",
		"ID=alpine": "apk", "ID=manjaro\nID_LIKE=arch": "pacman", "ID=\"opensuse-tumbleweed\"\nID_LIKE=\"opensuse suse\"": "zypper", "ID=own": "your system's",
	} {
		if got := readFacts(host(map[string]string{"etc/os-release": id})).install("bubblewrap"); !strings.Contains(got, want) {
			t.Errorf("%q: got %s, want a text with %q", id, got, want)
		}
	}
}
