package launcher

import (
	"path"
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/sandbox"
	"golang.org/x/sys/unix"
)

const (
	// devSize bounds what a command can put into /dev/shm and the rest of
	// its private /dev: memory that no other limit accounts for.
	devSize = "size=512m"
	// coverSize bounds the file system that holds covers: a few names.
	coverSize = "size=1m"
)

// binding is what every mount of the host that a command sees gets: programs
// gain no privileges and there are no devices but those of /dev.
const binding = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// mounter appends the steps that build the view of a plan. It runs in a mount
// namespace that is a copy of the host's. Everything that is shown comes from
// that copy by its canonical path, opened before anything is changed and
// without following links: if there is a link by now, the view
// is not built.
type mounter struct {
	*program
	plan    *sandbox.Plan
	root    register   // the root of the view
	sources []register // for each mount of the plan, a detached copy of its source
	covers  register   // a file system with what masks are made of
	names   int        // names used in it
	made    []string   // what the plan has mounted so far
	wall    *ruleset   // the second wall; nil: none
	helper  bool       // the command is the helper of file requests
	reading bool       // the command writes nothing
}

// tree is the kind of open_tree that copies a mount with what is below it.
const tree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_RECURSIVE

// openHow is how paths are opened: as places, without links.
func (m *mounter) openHow(flags uint64) arg {
	return pointer(m.program, &unix.OpenHow{
		Flags:   flags | unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

func (m *mounter) open(what string, dir arg, name string) register {
	return m.get(what, name, unix.SYS_OPENAT2, dir, m.text(name), m.openHow(0), val(unix.SizeofOpenHow))
}

var cwdFD = arg{value: ^uintptr(99)} // AT_FDCWD, -100

// source makes a detached copy of a part of the host, which must be what the
// plan saw there.
func (m *mounter) source(name string, attr uint64, id sandbox.FileID) register {
	at := m.open("open", cwdFD, name)
	m.mustBe(name, at, id)
	from := m.get("copy the mount of", name, unix.SYS_OPEN_TREE, at.arg(), m.text(""), val(tree))
	m.close(at)
	m.setattr(name, from, attr)
	return from
}

// setattr sets attributes of a mount and of all below it.
func (m *mounter) setattr(name string, fd register, attr uint64) {
	set := pointer(m.program, &unix.MountAttr{Attr_set: attr})
	m.do("restrict the mount of", name, unix.SYS_MOUNT_SETATTR, fd.arg(), m.text(""),
		val(unix.AT_EMPTY_PATH|unix.AT_RECURSIVE), set, val(32))
}

// mustBe appends what fails unless a descriptor is of what the plan saw, if it
// saw anything.
func (m *mounter) mustBe(name string, fd register, id sandbox.FileID) {
	if id != (sandbox.FileID{}) {
		m.identify(name, fd, id.Dev, id.Ino)
	}
}

// place mounts what fd is at a path of the view.
func (m *mounter) place(fd register, target string) { m.placeOn(fd, target, sandbox.FileID{}) }

// placeOn is place where the target must be what the plan saw there: another
// process may have exchanged a directory above since its source was copied.
func (m *mounter) placeOn(fd register, target string, id sandbox.FileID) {
	at := m.open("open", m.root.arg(), relative(target))
	m.mustBe(target, at, id)
	m.do("mount on", target, unix.SYS_MOVE_MOUNT, fd.arg(), m.text(""), at.arg(), m.text(""),
		val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
	m.close(at)
	m.close(fd)
	m.made = append(m.made, target)
}

// relative is an absolute path as seen from the root of the view.
func relative(name string) string {
	if name == "/" {
		return "."
	}
	return name[1:]
}

// fileSystem makes a new file system of a kind; options are KEY=VALUE.
func (m *mounter) fileSystem(kind string, attr uint64, options ...string) register {
	context := m.get("make a file system of kind", kind, unix.SYS_FSOPEN, m.text(kind), val(unix.FSOPEN_CLOEXEC))
	for _, o := range options {
		key, value, isPair := strings.Cut(o, "=")
		how, v := uint(unix.FSCONFIG_SET_FLAG), arg{}
		if isPair {
			how, v = unix.FSCONFIG_SET_STRING, m.text(value)
		}
		m.do("set an option of", kind, unix.SYS_FSCONFIG, context.arg(), val(how), m.text(key), v, val(0))
	}
	m.do("create", kind, unix.SYS_FSCONFIG, context.arg(), val(unix.FSCONFIG_CMD_CREATE), val(0), val(0), val(0))
	fd := m.get("mount", kind, unix.SYS_FSMOUNT, context.arg(), val(unix.FSMOUNT_CLOEXEC), val(attr))
	m.close(context)
	return fd
}

// view appends the steps that build the view (docs/spec/sandbox.md §7.2).
func (m *mounter) view() {
	m.do("make mounts private", "/", unix.SYS_MOUNT, val(0), m.text("/"), val(0), val(unix.MS_REC|unix.MS_PRIVATE), val(0))
	m.openSources()
	devs := m.openDevices()
	m.makeRoot()
	m.makeDev(devs)
	m.makeCovers()
	for i := range m.plan.Mounts {
		m.mount(i)
	}
	m.hideCovers()
	m.makeProc()
	if m.plan.Root == sandbox.RootEmpty {
		m.enterRoot()
	}
	m.close(m.root)
}

// openSources copies everything that the binds show.
func (m *mounter) openSources() {
	m.sources = make([]register, len(m.plan.Mounts))
	for i, mt := range m.plan.Mounts {
		switch {
		case mt.Kind == sandbox.BindWritable:
			m.sources[i] = m.source(mt.Source, binding, mt.ID)
		case mt.Kind == sandbox.BindReadOnly:
			m.sources[i] = m.source(mt.Source, binding|unix.MOUNT_ATTR_RDONLY, mt.ID)
		}
	}
}

// openDevices copies the devices that the host has. They are read-only as
// files: their owner on the host cannot change them, and devices are
// written to all the same.
func (m *mounter) openDevices() []register {
	fds := make([]register, len(sandbox.Devices))
	for i, name := range sandbox.Devices {
		m.ifThere(func() {
			fds[i] = m.source("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, sandbox.FileID{})
		})
	}
	return fds
}

// makeRoot restricts the root, or makes an empty one at a place that every
// host has; enterRoot makes it the root at the end.
func (m *mounter) makeRoot() {
	switch m.plan.Root {
	case sandbox.RootEmpty:
		m.root = m.open("open", cwdFD, "/proc")
		fd := m.fileSystem("tmpfs", binding, coverSize, "mode=755")
		m.do("mount on", "/proc", unix.SYS_MOVE_MOUNT, fd.arg(), m.text(""), m.root.arg(), m.text(""),
			val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
		m.close(m.root)
		m.root = fd
	case sandbox.RootWritable:
		m.root = m.open("open", cwdFD, "/")
		m.setattr("/", m.root, binding)
	default:
		m.root = m.open("open", cwdFD, "/")
		m.setattr("/", m.root, binding|unix.MOUNT_ATTR_RDONLY)
	}
}

// enterRoot makes the new root the only one.
func (m *mounter) enterRoot() {
	set := pointer(m.program, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	m.do("restrict the mount of", "/", unix.SYS_MOUNT_SETATTR, m.root.arg(), m.text(""), val(unix.AT_EMPTY_PATH), set, val(32))
	m.do("change directory to", "/", unix.SYS_FCHDIR, m.root.arg())
	m.do("change the root to", "/", unix.SYS_PIVOT_ROOT, m.text("."), m.text("."))
	m.do("unmount the old root", "", unix.SYS_UMOUNT2, m.text("."), val(unix.MNT_DETACH))
	m.do("change directory to", "/", unix.SYS_CHDIR, m.text("/"))
}

// parents makes the directories above a target where the view has nothing of
// the host: in an empty root, and in /dev.
func (m *mounter) parents(target string, file bool) {
	if m.plan.Root != sandbox.RootEmpty && !within(target, "/dev") {
		return
	}
	for _, made := range m.made {
		if within(target, made) && made != "/dev" {
			return
		}
	}
	for i := 1; i <= len(target); i++ {
		if i < len(target) && target[i] != '/' || target == "/" {
			continue
		}
		at := target[1:i]
		m.try(func() {
			if i == len(target) && file {
				m.makeFile(m.root, at, 0o444)
			} else {
				m.do("make the directory", target[:i], unix.SYS_MKDIRAT, m.root.arg(), m.text(at), val(0o755))
			}
		})
	}
}

func isMask(mt sandbox.Mount) bool {
	return mt.Kind == sandbox.EmptyFile || mt.Kind == sandbox.EmptyDir
}

func within(child, parent string) bool {
	return child == parent || parent == "/" || strings.HasPrefix(child, parent+"/")
}

func (m *mounter) makeFile(dir register, name string, mode uint32) {
	fd := m.get("make the file", name, unix.SYS_OPENAT, dir.arg(), m.text(name),
		val(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW), val(mode))
	// What the mode should be, whatever the umask is.
	m.do("set the mode of", name, unix.SYS_FCHMOD, fd.arg(), val(mode))
	m.close(fd)
}

func (m *mounter) mount(i int) {
	mt := &m.plan.Mounts[i]
	if mt.Kind == sandbox.Link {
		m.parents(path.Dir(mt.Target), false)
		m.do("make the link", mt.Target, unix.SYS_SYMLINKAT, m.text(mt.Source), m.root.arg(), m.text(relative(mt.Target)))
		return
	}
	m.parents(mt.Target, mt.File)
	if fd := m.sources[i]; fd != 0 {
		m.placeOn(fd, mt.Target, m.plan.Shown(i))
		return
	}
	if !within(mt.Target, "/dev") {
		m.placeOn(m.cover(mt), mt.Target, m.plan.Shown(i))
		return
	}
	// The view's own /dev may not have what is denied in the host's.
	m.ifThere(func() {
		m.close(m.open("open", m.root.arg(), relative(mt.Target)))
		m.place(m.cover(mt), mt.Target)
	})
}

// cover makes what a mask shows in the file system of covers, and returns a
// read-only mount of it.
func (m *mounter) cover(mt *sandbox.Mount) register {
	m.names++
	name := strconv.Itoa(m.names)
	if mt.Kind == sandbox.EmptyFile {
		m.makeFile(m.covers, name, mt.Mode)
	} else {
		m.do("make the directory", name, unix.SYS_MKDIRAT, m.covers.arg(), m.text(name), val(0o755))
		for _, h := range mt.Holes {
			if h.File {
				m.makeFile(m.covers, name+"/"+h.Path, 0)
			} else {
				m.do("make the directory", h.Path, unix.SYS_MKDIRAT, m.covers.arg(), m.text(name+"/"+h.Path), val(0o755))
			}
		}
		// Directories below are not listed either.
		for _, h := range slices.Backward(mt.Holes) {
			if !h.File {
				m.do("set the mode of", h.Path, unix.SYS_FCHMODAT, m.covers.arg(), m.text(name+"/"+h.Path), val(mt.Mode))
			}
		}
		m.do("set the mode of", mt.Target, unix.SYS_FCHMODAT, m.covers.arg(), m.text(name), val(mt.Mode))
	}
	fd := m.get("copy the cover for", mt.Target, unix.SYS_OPEN_TREE, m.covers.arg(), m.text(name),
		val(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW))
	m.setattr(mt.Target, fd, binding|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
	return fd
}

// makeCovers makes the file system of the covers, if there are any, and mounts
// it over the root: Linux before 6.15 copies only mounts that are in the mount
// namespace. No path leads there, as lookups that begin at the root begin below
// what is mounted on it. By now everything of the host is copied and restricted:
// a copy of the root would take this mount along.
func (m *mounter) makeCovers() {
	if !slices.ContainsFunc(m.plan.Mounts, isMask) {
		return
	}
	m.covers = m.fileSystem("tmpfs", binding, coverSize, "mode=755")
	root := m.open("open", cwdFD, "/")
	m.do("mount on", "/", unix.SYS_MOVE_MOUNT, m.covers.arg(), m.text(""), root.arg(), m.text(""),
		val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
	m.close(root)
}

// hideCovers unmounts the file system of the covers: "/.." would lead there,
// and it may be written to. Nothing names a mount on the root but being in it.
func (m *mounter) hideCovers() {
	if m.covers == 0 {
		return
	}
	m.do("change directory to", "the covers", unix.SYS_FCHDIR, m.covers.arg())
	m.do("unmount", "the covers", unix.SYS_UMOUNT2, m.text("."), val(unix.MNT_DETACH))
	m.do("change directory to", "/", unix.SYS_FCHDIR, m.root.arg())
	m.close(m.covers)
	m.covers = 0
}

// makeDev mounts a /dev with a few devices of the host, terminals of its own
// and room for shared memory.
func (m *mounter) makeDev(devs []register) {
	if m.plan.Root == sandbox.RootEmpty {
		m.do("make the directory", "/dev", unix.SYS_MKDIRAT, m.root.arg(), m.text("dev"), val(0o755))
	}
	m.place(m.fileSystem("tmpfs", unix.MOUNT_ATTR_NOSUID, devSize, "mode=755"), "/dev")
	at := m.open("open", m.root.arg(), "dev")
	for i, name := range sandbox.Devices {
		m.try(func() {
			m.makeFile(at, name, 0o666)
			m.own("/dev/"+name, devs[i], sandbox.WallFiles)
			m.place(devs[i], "/dev/"+name)
		})
	}
	for _, l := range [...][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"}, {"/proc/kcore", "core"}, {"pts/ptmx", "ptmx"},
	} {
		m.do("make the link", l[1], unix.SYS_SYMLINKAT, m.text(l[0]), at.arg(), m.text(l[1]))
	}
	m.do("make the directory", "/dev/shm", unix.SYS_MKDIRAT, at.arg(), m.text("shm"), val(0o755))
	m.do("set the mode of", "/dev/shm", unix.SYS_FCHMODAT, at.arg(), m.text("shm"), val(0o1777))
	shm := m.open("open", at.arg(), "shm")
	m.own("/dev/shm", shm, sandbox.WallDirectory)
	m.close(shm)
	m.do("make the directory", "/dev/pts", unix.SYS_MKDIRAT, at.arg(), m.text("pts"), val(0o755))
	m.close(at)
	// Some hosts forbid new terminals here; then there are none.
	m.try(func() {
		pts := m.fileSystem("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "newinstance", "ptmxmode=0666", "mode=620")
		m.own("/dev/pts", pts, sandbox.WallFiles)
		m.place(pts, "/dev/pts")
	})
	m.made = []string{"/dev"}
}

// makeProc mounts a /proc that shows the processes of the sandbox. Where the
// host does not allow it, /proc is empty: the host's own would show all.
func (m *mounter) makeProc() {
	if m.plan.Root == sandbox.RootEmpty {
		if m.plan.NoProc {
			return
		}
		m.try(func() {
			m.do("make the directory", "/proc", unix.SYS_MKDIRAT, m.root.arg(), m.text("proc"), val(0o555))
		})
	}
	owned, attr := sandbox.HostOwned, uint64(binding|unix.MOUNT_ATTR_NOEXEC)
	if m.reading {
		owned, attr = nil, attr|unix.MOUNT_ATTR_RDONLY // as a whole
	}
	fresh := func() {
		proc := m.fileSystem("proc", attr)
		m.own("/proc", proc, sandbox.WallFiles)
		m.place(proc, "/proc")
	}
	if !m.plan.NoProc {
		m.either(fresh, m.emptyProc)
		for _, name := range owned {
			m.ifThere(func() {
				at := m.open("open", m.root.arg(), "proc/"+name)
				from := m.get("copy the mount of", name, unix.SYS_OPEN_TREE, at.arg(), m.text(""), val(tree))
				m.setattr(name, from, unix.MOUNT_ATTR_RDONLY)
				m.do("mount on", name, unix.SYS_MOVE_MOUNT, from.arg(), m.text(""), at.arg(), m.text(""),
					val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
				m.close(from)
				m.close(at)
			})
		}
		return
	}
	m.emptyProc()
}

func (m *mounter) emptyProc() {
	m.place(m.fileSystem("tmpfs", binding|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, coverSize, "mode=555"), "/proc")
}
