package launcher

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

const (
	// devSize bounds the memory that a command can use in /dev/shm and the rest of its private
	// /dev. No other limit counts this memory.
	devSize = "size=512m"
	// maskSize bounds the file system of the masks, which contains only a few names.
	maskSize = "size=1m"
)

// binding has the flags of every mount of the host that a command sees: no set-user-ID programs,
// and no devices outside of /dev.
const binding = unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV

// mounter appends the steps that build the view of a plan. The steps run in a mount namespace that
// is a copy of the host's. All shown files come from that copy. The steps open them by their
// canonical paths before they change any mount, and follow no links: if a path now contains a link,
// they build no view.
type mounter struct {
	*initproc.Program
	plan    *plan.Plan
	root    initproc.Register   // the root of the view
	sources []initproc.Register // for each mount of the plan, a detached copy of its source
	masks   initproc.Register   // a file system that contains the sources of masks
	names   int                 // number of names used in masks
	made    []string            // targets that the plan has mounted so far
	wall    *ruleset            // the second wall; nil: none
	helper  bool                // the command is the helper of file requests
	reading bool                // the command may not write any file

	freshProc  bool              // fail if no new /proc can be mounted
	hostProc   initproc.Register // the host's /proc; 0: the view may not have it
	terminal   terminalFile      // the command's terminal
	rootsFiles []rootsFile       // files of root of which the view shows copies of the user's own
}

// tree has the flags of an open_tree that copies a mount with all mounts below it.
const tree = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_EMPTY_PATH | unix.AT_RECURSIVE

// openHow is the struct open_how for opening paths: O_PATH, without following links.
func (m *mounter) openHow(flags uint64) initproc.Arg {
	return initproc.Pointer(m.Program, &unix.OpenHow{
		Flags:   flags | unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW,
		Resolve: unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS,
	})
}

func (m *mounter) open(what string, dir initproc.Arg, name string) initproc.Register {
	return m.Get(what, name, unix.SYS_OPENAT2, dir, m.Text(name), m.openHow(0), initproc.Val(unix.SizeofOpenHow))
}

// copyMount makes a detached copy of a part of the host. The part must have the identity that the
// plan recorded.
func (m *mounter) copyMount(name string, attr uint64, id plan.FileID) initproc.Register {
	at := m.open("open", initproc.CwdFD, name)
	m.mustBe(name, at, id)
	from := m.Get("copy the mount of", name, unix.SYS_OPEN_TREE, at.Arg(), m.Text(""), initproc.Val(tree))
	m.Close(at)
	m.setMountAttr(name, from, attr)
	return from
}

// setMountAttr sets attributes of a mount and of all mounts below it.
func (m *mounter) setMountAttr(name string, fd initproc.Register, attr uint64) {
	set := initproc.Pointer(m.Program, &unix.MountAttr{Attr_set: attr})
	m.Do("restrict the mount of", name, unix.SYS_MOUNT_SETATTR, fd.Arg(), m.Text(""),
		initproc.Val(unix.AT_EMPTY_PATH|unix.AT_RECURSIVE), set, initproc.Val(32))
}

// mustBe appends a check that a descriptor refers to the file that the plan recorded, if it recorded one.
func (m *mounter) mustBe(name string, fd initproc.Register, id plan.FileID) {
	if id != (plan.FileID{}) {
		m.Identify(name, fd, id.Dev, id.Ino)
	}
}

// moveMount mounts fd at a path of the view.
func (m *mounter) moveMount(fd initproc.Register, target string) {
	m.moveMountOnto(fd, target, plan.FileID{})
}

// moveMountOnto is moveMount for a target that must have the identity that the plan recorded:
// another process may have replaced a parent directory since the source was copied.
func (m *mounter) moveMountOnto(fd initproc.Register, target string, id plan.FileID) {
	at := m.open("open", m.root.Arg(), relative(target))
	m.mustBe(target, at, id)
	m.Do("mount on", target, unix.SYS_MOVE_MOUNT, fd.Arg(), m.Text(""), at.Arg(), m.Text(""),
		initproc.Val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
	m.Close(at)
	m.Close(fd)
	m.made = append(m.made, target)
}

// relative returns an absolute path relative to the root of the view.
func relative(name string) string {
	if name == "/" {
		return "."
	}
	return name[1:]
}

// fileSystem creates a new file system of a kind. Options have the form KEY=VALUE.
func (m *mounter) fileSystem(kind string, attr uint64, options ...string) initproc.Register {
	context := m.Get("make a file system of kind", kind, unix.SYS_FSOPEN, m.Text(kind), initproc.Val(unix.FSOPEN_CLOEXEC))
	for _, o := range options {
		key, value, isPair := strings.Cut(o, "=")
		how, v := uint(unix.FSCONFIG_SET_FLAG), initproc.Arg{}
		if isPair {
			how, v = unix.FSCONFIG_SET_STRING, m.Text(value)
		}
		m.Do("set an option of", kind, unix.SYS_FSCONFIG, context.Arg(), initproc.Val(how), m.Text(key), v, initproc.Val(0))
	}
	m.Do("create", kind, unix.SYS_FSCONFIG, context.Arg(), initproc.Val(unix.FSCONFIG_CMD_CREATE), initproc.Val(0), initproc.Val(0), initproc.Val(0))
	fd := m.Get("mount", kind, unix.SYS_FSMOUNT, context.Arg(), initproc.Val(unix.FSMOUNT_CLOEXEC), initproc.Val(attr))
	m.Close(context)
	return fd
}

// view appends the steps that build the view (docs/spec/sandbox.md §7.2).
func (m *mounter) view() {
	m.Do("make mounts private", "/", unix.SYS_MOUNT, initproc.Val(0), m.Text("/"), initproc.Val(0), initproc.Val(unix.MS_REC|unix.MS_PRIVATE), initproc.Val(0))
	m.copySources()
	devs, terminal := m.copyDevices(), m.copyTerminal()
	m.openHostProc()
	m.prepareRoot()
	m.mountDev(devs, terminal)
	m.mountMasks()
	for i := range m.plan.Mounts {
		m.mount(i)
	}
	m.mountRootsFiles()
	m.unmountMasks()
	m.mountProc()
	if m.plan.Root == plan.RootEmpty {
		m.pivotRoot()
	}
	m.Close(m.root)
}

// copySources copies the sources of all binds.
func (m *mounter) copySources() {
	m.sources = make([]initproc.Register, len(m.plan.Mounts))
	for i, mt := range m.plan.Mounts {
		switch {
		case mt.Kind == plan.BindWritable:
			m.sources[i] = m.copyMount(mt.Source, binding, mt.ID)
		case mt.Kind == plan.BindReadOnly:
			m.sources[i] = m.copyMount(mt.Source, binding|unix.MOUNT_ATTR_RDONLY, mt.ID)
		}
	}
}

// copyDevices copies the devices that the host has. The copies are read-only as files, so that the
// devices' owner cannot change their attributes. Writing to the devices still works.
func (m *mounter) copyDevices() []initproc.Register {
	fds := make([]initproc.Register, len(plan.Devices))
	for i, name := range plan.Devices {
		m.IfThere(func() {
			fds[i] = m.copyMount("/dev/"+name, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, plan.FileID{})
		})
	}
	return fds
}

// console is where the view shows the command's terminal, as bwrap does: ttyname finds it there.
const console = "/dev/console"

// copyTerminal copies the command's terminal, if it has a path. Like the other devices, it is read-only as a file.
func (m *mounter) copyTerminal() (fd initproc.Register) {
	if m.terminal.path != "" {
		m.IfThere(func() {
			fd = m.copyMount(m.terminal.path, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY, m.terminal.id)
		})
	}
	return fd
}

// prepareRoot restricts the root, or mounts an empty one at a path that every host has. In the end
// pivotRoot makes that the root.
func (m *mounter) prepareRoot() {
	switch m.plan.Root {
	case plan.RootEmpty:
		m.root = m.open("open", initproc.CwdFD, "/proc")
		fd := m.fileSystem("tmpfs", binding, maskSize, "mode=755")
		m.Do("mount on", "/proc", unix.SYS_MOVE_MOUNT, fd.Arg(), m.Text(""), m.root.Arg(), m.Text(""),
			initproc.Val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
		m.Close(m.root)
		m.root = fd
	case plan.RootWritable:
		m.root = m.open("open", initproc.CwdFD, "/")
		m.setMountAttr("/", m.root, binding)
	default:
		m.root = m.open("open", initproc.CwdFD, "/")
		m.setMountAttr("/", m.root, binding|unix.MOUNT_ATTR_RDONLY)
	}
}

// pivotRoot makes the new root the only root.
func (m *mounter) pivotRoot() {
	set := initproc.Pointer(m.Program, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	m.Do("restrict the mount of", "/", unix.SYS_MOUNT_SETATTR, m.root.Arg(), m.Text(""), initproc.Val(unix.AT_EMPTY_PATH), set, initproc.Val(32))
	m.Do("change directory to", "/", unix.SYS_FCHDIR, m.root.Arg())
	m.Do("change the root to", "/", unix.SYS_PIVOT_ROOT, m.Text("."), m.Text("."))
	m.Do("unmount the old root", "", unix.SYS_UMOUNT2, m.Text("."), initproc.Val(unix.MNT_DETACH))
	m.Do("change directory to", "/", unix.SYS_CHDIR, m.Text("/"))
}

// makeParents creates the parents of a target where the view has no files of the host: in an empty
// root, and in /dev.
func (m *mounter) makeParents(target string, file bool) {
	if m.plan.Root != plan.RootEmpty && !within(target, "/dev") {
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
		m.Try(func() {
			if i == len(target) && file {
				m.makeFile(m.root, at, 0o444)
			} else {
				m.Do("make the directory", target[:i], unix.SYS_MKDIRAT, m.root.Arg(), m.Text(at), initproc.Val(0o755))
			}
		})
	}
}

func isMask(mt plan.Mount) bool {
	return mt.Kind == plan.EmptyFile || mt.Kind == plan.EmptyDir
}

func within(child, parent string) bool {
	return child == parent || parent == "/" || strings.HasPrefix(child, parent+"/")
}

func (m *mounter) makeFile(dir initproc.Register, name string, mode uint32) {
	fd := m.Get("make the file", name, unix.SYS_OPENAT, dir.Arg(), m.Text(name),
		initproc.Val(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW), initproc.Val(mode))
	// Set the mode again, because openat has applied the umask.
	m.Do("set the mode of", name, unix.SYS_FCHMOD, fd.Arg(), initproc.Val(mode))
	m.Close(fd)
}

func (m *mounter) mount(i int) {
	mt := &m.plan.Mounts[i]
	if mt.Kind == plan.Link {
		m.makeParents(path.Dir(mt.Target), false)
		m.Do("make the link", mt.Target, unix.SYS_SYMLINKAT, m.Text(mt.Source), m.root.Arg(), m.Text(relative(mt.Target)))
		return
	}
	m.makeParents(mt.Target, mt.File)
	if fd := m.sources[i]; fd != 0 {
		m.moveMountOnto(fd, mt.Target, m.plan.Shown(i))
		return
	}
	if !within(mt.Target, "/dev") {
		m.moveMountOnto(m.makeMask(mt), mt.Target, m.plan.Shown(i))
		return
	}
	// A path that is denied in the host's /dev may be missing in the view's own /dev.
	m.IfThere(func() {
		m.Close(m.open("open", m.root.Arg(), relative(mt.Target)))
		m.moveMount(m.makeMask(mt), mt.Target)
	})
}

// makeMask creates the content of a mask in the file system of the masks, and returns a read-only
// mount of it.
func (m *mounter) makeMask(mt *plan.Mount) initproc.Register {
	m.names++
	name := strconv.Itoa(m.names)
	if mt.Kind == plan.EmptyFile {
		m.makeFile(m.masks, name, mt.Mode)
	} else {
		m.Do("make the directory", name, unix.SYS_MKDIRAT, m.masks.Arg(), m.Text(name), initproc.Val(0o755))
		for _, h := range mt.MountPoints {
			if h.File {
				m.makeFile(m.masks, name+"/"+h.Path, 0)
			} else {
				m.Do("make the directory", h.Path, unix.SYS_MKDIRAT, m.masks.Arg(), m.Text(name+"/"+h.Path), initproc.Val(0o755))
			}
		}
		// The directories below must not be listable either.
		for _, h := range slices.Backward(mt.MountPoints) {
			if !h.File {
				m.Do("set the mode of", h.Path, unix.SYS_FCHMODAT, m.masks.Arg(), m.Text(name+"/"+h.Path), initproc.Val(mt.Mode))
			}
		}
		m.Do("set the mode of", mt.Target, unix.SYS_FCHMODAT, m.masks.Arg(), m.Text(name), initproc.Val(mt.Mode))
	}
	fd := m.Get("copy the mask of", mt.Target, unix.SYS_OPEN_TREE, m.masks.Arg(), m.Text(name),
		initproc.Val(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW))
	m.setMountAttr(mt.Target, fd, binding|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
	return fd
}

// mountMasks creates the file system of the masks, if any is needed, and mounts it over the root,
// because Linux before 6.15 copies only mounts that are in the mount namespace. No path leads to
// this mount: look-ups from the root begin below the mounts on it. All parts of the host have been
// copied and restricted before, because a later copy of the root would include this mount.
func (m *mounter) mountMasks() {
	if !slices.ContainsFunc(m.plan.Mounts, isMask) && len(m.rootsFiles) == 0 {
		return
	}
	m.masks = m.fileSystem("tmpfs", binding, maskSize, "mode=755")
	root := m.open("open", initproc.CwdFD, "/")
	m.Do("mount on", "/", unix.SYS_MOVE_MOUNT, m.masks.Arg(), m.Text(""), root.Arg(), m.Text(""),
		initproc.Val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
	m.Close(root)
}

// unmountMasks unmounts the file system of the masks, which is writable and which "/.." would lead
// to. A mount on the root has no path, so it must be unmounted from within.
func (m *mounter) unmountMasks() {
	if m.masks == 0 {
		return
	}
	m.Do("change directory to", "the masks", unix.SYS_FCHDIR, m.masks.Arg())
	m.Do("unmount", "the masks", unix.SYS_UMOUNT2, m.Text("."), initproc.Val(unix.MNT_DETACH))
	m.Do("change directory to", "/", unix.SYS_FCHDIR, m.root.Arg())
	m.Close(m.masks)
	m.masks = 0
}

// mountDev mounts a /dev with a few devices of the host, its own terminals and a directory for
// shared memory.
func (m *mounter) mountDev(devs []initproc.Register, terminal initproc.Register) {
	if m.plan.Root == plan.RootEmpty {
		m.Do("make the directory", "/dev", unix.SYS_MKDIRAT, m.root.Arg(), m.Text("dev"), initproc.Val(0o755))
	}
	m.moveMount(m.fileSystem("tmpfs", unix.MOUNT_ATTR_NOSUID, devSize, "mode=755"), "/dev")
	at := m.open("open", m.root.Arg(), "dev")
	for i, name := range plan.Devices {
		m.Try(func() {
			m.makeFile(at, name, 0o666)
			m.grantOwn("/dev/"+name, devs[i], plan.WallFiles|plan.WallReads)
			m.moveMount(devs[i], "/dev/"+name)
		})
	}
	if terminal != 0 {
		// The command may open it as it may by /dev/stdin: see grantInherited.
		m.Try(func() {
			m.makeFile(at, path.Base(console), 0o600)
			m.moveMount(terminal, console)
		})
	}
	for _, l := range [...][2]string{
		{"/proc/self/fd", "fd"}, {"/proc/self/fd/0", "stdin"}, {"/proc/self/fd/1", "stdout"},
		{"/proc/self/fd/2", "stderr"}, {"/proc/kcore", "core"}, {"pts/ptmx", "ptmx"},
	} {
		m.Do("make the link", l[1], unix.SYS_SYMLINKAT, m.Text(l[0]), at.Arg(), m.Text(l[1]))
	}
	m.Do("make the directory", "/dev/shm", unix.SYS_MKDIRAT, at.Arg(), m.Text("shm"), initproc.Val(0o755))
	m.Do("set the mode of", "/dev/shm", unix.SYS_FCHMODAT, at.Arg(), m.Text("shm"), initproc.Val(0o1777))
	shm := m.open("open", at.Arg(), "shm")
	m.grantOwn("/dev/shm", shm, plan.WallDirectory|plan.WallReads)
	m.Close(shm)
	m.Do("make the directory", "/dev/pts", unix.SYS_MKDIRAT, at.Arg(), m.Text("pts"), initproc.Val(0o755))
	m.Close(at)
	// If the host forbids new terminals here, the view has none.
	m.Try(func() {
		pts := m.fileSystem("devpts", unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC, "newinstance", "ptmxmode=0666", "mode=620")
		m.grantOwn("/dev/pts", pts, plan.WallFiles|plan.WallReads)
		m.moveMount(pts, "/dev/pts")
	})
	m.made = []string{"/dev"}
}

// mountProc mounts a new /proc. Where parts of the host's are covered, as in most containers, the
// kernel forbids that (EPERM): a new one would show them. Then the view has the host's /proc, if its
// policy permits reading that, and otherwise an empty one.
func (m *mounter) mountProc() {
	if m.plan.Root == plan.RootEmpty {
		if m.plan.NoProc {
			return
		}
		m.Try(func() {
			m.Do("make the directory", "/proc", unix.SYS_MKDIRAT, m.root.Arg(), m.Text("proc"), initproc.Val(0o555))
		})
	}
	if m.plan.NoProc {
		m.mountEmptyProc()
		return
	}
	owned, attr := plan.HostOwned, uint64(binding|unix.MOUNT_ATTR_NOEXEC)
	if m.reading {
		owned, attr = nil, attr|unix.MOUNT_ATTR_RDONLY // all of /proc is read-only
	}
	if mistake("kernel") {
		owned = nil
	}
	fresh := func() {
		proc := m.fileSystem("proc", attr)
		m.grantOwn("/proc", proc, plan.WallProc()|plan.WallReads)
		m.moveMount(proc, "/proc")
	}
	if m.freshProc {
		fresh()
	} else {
		m.IfForbidden(fresh, m.mountHostProc)
	}
	for _, name := range owned {
		m.IfThere(func() {
			at := m.open("open", m.root.Arg(), "proc/"+name)
			from := m.Get("copy the mount of", name, unix.SYS_OPEN_TREE, at.Arg(), m.Text(""), initproc.Val(tree))
			m.setMountAttr(name, from, unix.MOUNT_ATTR_RDONLY)
			m.Do("mount on", name, unix.SYS_MOVE_MOUNT, from.Arg(), m.Text(""), at.Arg(), m.Text(""),
				initproc.Val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
			m.Close(from)
			m.Close(at)
		})
	}
	if m.hostProc != 0 {
		m.Close(m.hostProc)
	}
}

// mountHostProc mounts the host's /proc, read-only with everything that covers parts of it. It shows
// the names and arguments of all processes of the host. The kernel lets nobody in the view's user
// namespace read anything else of a process outside.
func (m *mounter) mountHostProc() {
	if m.hostProc == 0 {
		m.mountEmptyProc()
		return
	}
	proc := m.Get("copy the mount of", "/proc", unix.SYS_OPEN_TREE, m.hostProc.Arg(), m.Text(""), initproc.Val(tree))
	m.setMountAttr("/proc", proc, binding|unix.MOUNT_ATTR_NOEXEC|unix.MOUNT_ATTR_RDONLY)
	m.grantOwn("/proc", proc, plan.WallReads)
	m.moveMount(proc, "/proc")
}

// openHostProc opens the host's /proc if the view may have it.
func (m *mounter) openHostProc() {
	if m.freshProc || m.helper || m.plan.NoProc || !m.plan.MayShowHostProc() {
		return
	}
	if id, err := identifyProc(); err == nil {
		m.hostProc = m.open("open", initproc.CwdFD, "/proc")
		m.mustBe("/proc", m.hostProc, id)
	}
}

// identifyProc returns the identity of the host's /proc.
func identifyProc() (plan.FileID, error) {
	const name = "/proc"
	var fs unix.Statfs_t
	var st unix.Stat_t
	if err := unix.Statfs(name, &fs); err != nil {
		return plan.FileID{}, fmt.Errorf("look at %s: %w", name, err)
	}
	if err := unix.Stat(name, &st); err != nil {
		return plan.FileID{}, fmt.Errorf("look at %s: %w", name, err)
	}
	// The root of the file system has this number; another directory of it shows one process only.
	const procRoot = 1
	if fs.Type != unix.PROC_SUPER_MAGIC || st.Ino != procRoot {
		return plan.FileID{}, fmt.Errorf("%s is no /proc", name)
	}
	return plan.FileID{Dev: st.Dev, Ino: st.Ino}, nil
}

func (m *mounter) mountEmptyProc() {
	m.moveMount(m.fileSystem("tmpfs", binding|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC, maskSize, "mode=555"), "/proc")
}
