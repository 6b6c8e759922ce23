package doctor

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// unset is the value of a setting that this kernel does not have.
const unset = -1

// facts are settings of the host. They only explain failures; no result depends on them.
type facts struct {
	self      string // the path of this program
	kernel    string
	container string
	os        []string // ID and ID_LIKE of os-release

	usernsClone int64 // kernel.unprivileged_userns_clone, of Debian's and Arch's kernels
	maxUserns   int64 // user.max_user_namespaces
	// exhausted is the first kind of namespaces whose limit is 0, and missing is the first kind
	// that this kernel does not have. Each is empty if there is no such kind.
	exhausted, missing string
	apparmorUserns     int64 // kernel.apparmor_restrict_unprivileged_userns, of Ubuntu's
	inotifyInstances   int64 // fs.inotify.max_user_instances
	ptyMax, ptyUsed    int64 // kernel.pty.max and .nr

	seccompMode    int // 0 none, 1 strict, 2 filters
	seccompFilters int
	capabilities   uint64 // effective

	profile string // of AppArmor, with its mode; empty: unconfined
	shipped bool   // the package of this program has written a profile for its launcher
	enforce bool   // it is enforced, and not only logged
	selinux string // the context under an enforcing SELinux; empty: none
	lsms    []string

	nested bool     // in a user namespace that is not the host's
	chroot bool     // the root directory is not the root of the mounts
	masked []string // paths below /proc on which something is mounted
	cgroup string   // the directory of this program's cgroup v2; empty: not mounted
}

// kinds are the kinds of namespaces that the launcher creates in one call, by their names in /proc,
// and the names of the checks that report them.
var kinds = [...]struct{ name, check string }{
	{"user", UserNamespace}, {"mnt", MountNamespace}, {"pid", PIDNamespace},
	{"net", NetworkNamespace}, {"ipc", OtherNamespaces}, {"uts", OtherNamespaces},
}

// refusedNamespace returns the check for the kind of namespaces that most likely caused the
// kernel's error.
func (f *facts) refusedNamespace(errno syscall.Errno) string {
	likely := ""
	switch errno {
	case unix.ENOSPC:
		likely = f.exhausted
	case unix.EINVAL:
		likely = f.missing
	}
	for _, kind := range kinds {
		if kind.name == likely {
			return kind.check
		}
	}
	return UserNamespace
}

// Numbers of capabilities.
const (
	capSysAdmin = 21
	capSetfcap  = 31
)

func (f *facts) has(capability uint) bool { return f.capabilities&(1<<capability) != 0 }

// readFacts reads the facts from root, the file system that is the host's `/`.
func readFacts(root fs.FS) *facts {
	t := tree{root}
	f := &facts{
		kernel:           t.text("proc/sys/kernel/osrelease"),
		usernsClone:      t.number("proc/sys/kernel/unprivileged_userns_clone"),
		maxUserns:        t.number("proc/sys/user/max_user_namespaces"),
		apparmorUserns:   t.number("proc/sys/kernel/apparmor_restrict_unprivileged_userns"),
		inotifyInstances: t.number("proc/sys/fs/inotify/max_user_instances"),
		ptyMax:           t.number("proc/sys/kernel/pty/max"),
		ptyUsed:          t.number("proc/sys/kernel/pty/nr"),
		container:        t.container(),
	}
	for _, kind := range kinds {
		if f.exhausted == "" && t.number("proc/sys/user/max_"+kind.name+"_namespaces") == 0 {
			f.exhausted = kind.name
		}
		if f.missing == "" && t.link("proc/self/ns/"+kind.name) == "" {
			f.missing = kind.name
		}
	}
	f.status(t.text("proc/self/status"))
	if text := t.text("sys/kernel/security/lsm"); text != "" {
		f.lsms = strings.Split(text, ",")
	}
	f.label(t)
	f.shipped = t.exists(strings.TrimPrefix(shippedProfile, "/"))
	f.nested = nested(t.text("proc/self/uid_map"))
	f.mounts(t.text("proc/self/mountinfo"), t.text("proc/self/cgroup"))
	f.chroot = f.chroot || t.rootedApart()
	for _, file := range []string{"etc/os-release", "usr/lib/os-release"} {
		if text := t.text(file); text != "" {
			f.os = distribution(text)
			break
		}
	}
	return f
}

// tree reads small files. A file that cannot be read counts as missing. Each file is read with a
// single call, because the kernel returns only the first part of a setting that is read in several
// calls.
type tree struct{ fs.FS }

func (t tree) text(name string) string {
	b, err := fs.ReadFile(t.FS, name)
	if err != nil {
		return ""
	}
	return strings.TrimRight(string(b), "\n\x00")
}

func (t tree) number(name string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(t.text(name)), 10, 64)
	if err != nil {
		return unset
	}
	return n
}

func (t tree) exists(name string) bool {
	_, err := fs.Stat(t.FS, name)
	return err == nil
}

func (t tree) link(name string) string {
	to, err := fs.ReadLink(t.FS, name)
	if err != nil {
		return ""
	}
	return to
}

// rootedApart reports whether process 1 is in the same mount namespace but has another root
// directory. Then process 1 sees other mounts than this process does. Only root may read that.
func (t tree) rootedApart() bool {
	mounts := t.link("proc/self/ns/mnt")
	return mounts != "" && t.link("proc/1/ns/mnt") == mounts && t.text("proc/1/mountinfo") != t.text("proc/self/mountinfo")
}

// firstNamespaces are the inode numbers of the namespaces with which a kernel starts
// (linux/proc_ns.h).
var firstNamespaces = map[string]string{
	"pid": "pid:[4026531836]", "uts": "uts:[4026531838]", "ipc": "ipc:[4026531839]",
}

// container returns the kind of container that this program runs in, by the files that containers
// have. A machine whose disk was made from a container image has such a file too, so a process in
// the kernel's first namespaces does not count as being in a container.
func (t tree) container() string {
	first := true
	for name, link := range firstNamespaces {
		first = first && t.link("proc/self/ns/"+name) == link
	}
	switch {
	case first:
		return ""
	case t.exists("run/secrets/kubernetes.io"), t.exists("var/run/secrets/kubernetes.io"):
		return "kubernetes"
	case t.exists(".dockerenv"):
		return "docker"
	case t.exists("run/.containerenv"):
		return "podman"
	}
	// systemd stores the name that the container's manager gave it.
	return t.text("run/systemd/container")
}

// status reads /proc/self/status.
func (f *facts) status(text string) {
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Seccomp":
			f.seccompMode, _ = strconv.Atoi(value)
		case "Seccomp_filters":
			f.seccompFilters, _ = strconv.Atoi(value)
		case "CapEff":
			f.capabilities, _ = strconv.ParseUint(value, 16, 64)
		}
	}
}

// label reads the security module's profile of this process. AppArmor reports `unconfined` or `NAME
// (MODE)`. SELinux reports a context of four words.
func (f *facts) label(t tree) {
	text := t.text("proc/self/attr/apparmor/current")
	if text == "" {
		text = t.text("proc/self/attr/current")
	}
	name, mode, ok := strings.Cut(text, " (")
	switch {
	case ok:
		f.profile, f.enforce = text, strings.HasPrefix(mode, "enforce")
		if strings.HasPrefix(mode, "unconfined") || name == "unconfined" {
			f.profile = ""
		}
	case strings.Count(text, ":") >= 2 && t.text("sys/fs/selinux/enforce") == "1":
		f.selinux = text
	}
}

// nested reports whether a user map does not map the whole range of ids: then this process is in a
// nested user namespace.
func nested(text string) bool {
	fields := strings.Fields(text)
	return len(fields) > 0 && (len(fields) != 3 || fields[0] != "0" || fields[1] != "0" || fields[2] != "4294967295")
}

// mounts reads /proc/self/mountinfo and /proc/self/cgroup.
func (f *facts) mounts(mounts, cgroups string) {
	own := ""
	for line := range strings.Lines(cgroups) {
		if p, ok := strings.CutPrefix(line, "0::"); ok {
			own = strings.TrimSpace(p)
		}
	}
	root := false
	for line := range strings.Lines(mounts) {
		head, tail, _ := strings.Cut(line, " - ")
		fields := strings.Fields(head)
		if len(fields) < 5 {
			continue
		}
		shows, at := fields[3], fields[4]
		root = root || at == "/"
		if strings.HasPrefix(at, "/proc/") && !strings.HasPrefix(tail, "binfmt_misc ") && !strings.HasPrefix(tail, "autofs ") {
			f.masked = append(f.masked, at)
		}
		// The mount may show only a part of the cgroup hierarchy.
		if below, ok := relative(shows, own); ok && strings.HasPrefix(tail, "cgroup2 ") && own != "" {
			f.cgroup = path.Join(at, below)
		}
	}
	f.chroot = mounts != "" && !root
}

// relative returns the part of a path below a directory.
func relative(dir, name string) (string, bool) {
	if name == dir || dir == "/" {
		return strings.TrimPrefix(name, dir), true
	}
	return strings.CutPrefix(name, dir+"/")
}

// distribution reads ID and ID_LIKE from os-release.
func distribution(text string) []string {
	var ids []string
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		value = strings.Trim(value, `"'`)
		switch key {
		case "ID":
			ids = append([]string{value}, ids...)
		case "ID_LIKE":
			ids = append(ids, strings.Fields(value)...)
		}
	}
	return ids
}
