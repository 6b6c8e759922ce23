package launcher

import (
	"os"
	"path/filepath"
	"strconv"

	"codex.internal/cmd/codex-linux-sandbox/initproc"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// sshPatterns are the files of which ssh demands that they belong to root or to the user: what /etc/ssh/ssh_config includes. In a
// user namespace with one user root's files belong to nobody, and ssh then ends.
var sshPatterns = []string{"/etc/ssh/ssh_config", "/etc/ssh/ssh_config.d/*", "/etc/crypto-policies/back-ends/openssh.config"}

// Bounds of the files that are copied: they share the file system of the masks (maskSize). Distributions have a few of some 100 bytes.
const (
	maxRootsFiles = 32
	maxRootsFile  = 16 << 10 // bytes
)

// rootsFile is a file of root in place of which the view shows a copy that belongs to the user.
type rootsFile struct {
	path string // canonical
	id   plan.FileID
	mode uint32
	text []byte
}

// sshFiles returns the files to copy for a command that may read them and not change them. A file that ssh would refuse outside is
// left out, as is one that cannot be read.
func (l *launch) sshFiles() (files []rootsFile) {
	if os.Geteuid() == 0 || l.helper || l.plan.Root == plan.RootWritable {
		return nil
	}
	for _, pattern := range sshPatterns {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			name, err := filepath.EvalSymlinks(name)
			if err != nil || len(files) == maxRootsFiles || !l.onlyReads(name) {
				continue
			}
			if f, ok := openRootsFile(name); ok {
				files = append(files, f)
			}
		}
	}
	return files
}

// onlyReads reports whether the policy lets a path be read, and not written.
func (l *launch) onlyReads(name string) bool {
	policy := l.plan.Policy
	return policy == nil || policy.Access(name) == permissions.Read && !policy.DeniesRead(name)
}

// openRootsFile reads a file, if it is root's and nobody else may write it.
func openRootsFile(name string) (f rootsFile, ok bool) {
	fd, err := unix.Open(name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return f, false
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if unix.Fstat(fd, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG || st.Uid != 0 || st.Mode&0o022 != 0 || st.Size > maxRootsFile {
		return f, false
	}
	text := make([]byte, st.Size)
	n, err := unix.Pread(fd, text, 0)
	if err != nil || int64(n) != st.Size || n == 0 {
		return f, false
	}
	return rootsFile{name, plan.FileID{Dev: uint64(st.Dev), Ino: st.Ino}, st.Mode & 0o777, text}, true
}

// mountRootsFiles mounts the copies, read-only. Where the view does not show the file, because it is hidden, nothing is mounted.
func (m *mounter) mountRootsFiles() {
	for _, f := range m.rootsFiles {
		m.Try(func() {
			at := m.open("open", m.root.Arg(), relative(f.path))
			m.Identify(f.path, at, f.id.Dev, f.id.Ino)
			m.names++
			name := strconv.Itoa(m.names)
			fd := m.Get("make the file", name, unix.SYS_OPENAT, m.masks.Arg(), m.Text(name),
				initproc.Val(unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW), initproc.Val(f.mode))
			m.Do("write", f.path, unix.SYS_WRITE, fd.Arg(), initproc.Slice(m.Program, f.text), initproc.Val(len(f.text))).Full = true
			m.Do("set the mode of", f.path, unix.SYS_FCHMOD, fd.Arg(), initproc.Val(f.mode))
			m.Close(fd)
			own := m.Get("copy the mount of", f.path, unix.SYS_OPEN_TREE, m.masks.Arg(), m.Text(name),
				initproc.Val(unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW))
			m.setMountAttr(f.path, own, binding|unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOEXEC)
			m.Do("mount on", f.path, unix.SYS_MOVE_MOUNT, own.Arg(), m.Text(""), at.Arg(), m.Text(""),
				initproc.Val(unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH))
			m.Close(own)
			m.Close(at)
		})
	}
}
