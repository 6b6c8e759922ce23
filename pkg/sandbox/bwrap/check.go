package bwrap

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"codex.internal/pkg/sandbox/mountinfo"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
	"golang.org/x/sys/unix"
)

// Find returns the bwrap of the system. It ignores a bwrap in or below the current directory or one
// of the other directories, because a workspace could contain its own bwrap.
func Find(others ...string) (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	foreign := func(program string) bool {
		for _, dir := range append(others, cwd) {
			if dir != "/" && permissions.Within(program, dir) {
				return true
			}
		}
		return false
	}
	for _, dir := range filepath.SplitList(os.Getenv("PATH")) {
		if !filepath.IsAbs(dir) {
			continue
		}
		real, err := filepath.EvalSymlinks(filepath.Join(dir, "bwrap"))
		if err == nil && !foreign(real) && unix.Access(real, unix.X_OK) == nil {
			return real, nil
		}
	}
	return "", errors.New("bubblewrap is unavailable: bwrap is not on PATH; install your system's bubblewrap")
}

// Binds returns the paths that the plan shows or masks, with the identities of the files that the
// plan saw there. bwrap follows links, so the second stage must check whether bwrap has mounted the
// right files at the right paths. Binds returns an error if a path has already been moved.
func Binds(p *plan.Plan) ([]byte, error) {
	var text []byte
	if p.Root == plan.RootWritable {
		st, err := statCanonical("/")
		if err != nil {
			return nil, err
		}
		text = appendPlace(text, writePrefix, st, "/")
	}
	last := lastAt(p)
	for i, m := range slices.Backward(p.Mounts) {
		if last[m.Target] != i || m.Kind == plan.Link {
			continue
		}
		id := m.ID
		if m.Kind == plan.EmptyDir || m.Kind == plan.EmptyFile {
			// A view has its own /dev and /proc.
			if !permissions.Within(m.Target, "/dev") && !permissions.Within(m.Target, "/proc") {
				text = fmt.Appendf(text, "%s %d %d %o %s\x00", maskPrefix, id.Dev, id.Ino, m.Mode, m.Target)
			}
			continue
		}
		st, err := statCanonical(m.Source)
		if err != nil {
			return nil, err
		}
		if id != (plan.FileID{}) && fileID(st) != id {
			return nil, fmt.Errorf("look at %s: %w", m.Source, plan.ErrAppeared)
		}
		kind := readPrefix
		if m.Kind == plan.BindWritable {
			kind = writePrefix
		}
		text = appendPlace(text, kind, st, m.Target)
		if st.Attributes_mask&st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 && p.Shown(i) != (plan.FileID{}) {
			text = fmt.Appendf(text, "%s%s\x00", onPrefix, m.Target)
		}
	}
	if !p.NoProc {
		for _, name := range plan.HostOwned {
			if st, err := statCanonical("/proc/" + name); err == nil {
				text = appendPlace(text, readPrefix, st, "/proc/"+name)
			}
		}
	}
	for _, name := range p.Absent {
		text = fmt.Appendf(text, "%s%s\x00", absentPrefix, name)
	}
	return text, nil
}

// openCanonical opens the file at a path without links.
func openCanonical(name string) (int, error) {
	return plan.Openat2(unix.AT_FDCWD, name, &unix.OpenHow{
		Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
}

// statCanonical returns the status of the file at a path that contains no links.
func statCanonical(name string) (*unix.Statx_t, error) {
	fd, err := openCanonical(name)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return st, nil
}

// appendPlace appends the line of a path to the text of Binds.
func appendPlace(text []byte, kind string, st *unix.Statx_t, name string) []byte {
	id := fileID(st)
	return fmt.Appendf(text, "%s%d %d %s\x00", kind, id.Dev, id.Ino, name)
}

// These are the prefixes of the lines of Binds: for read-only and for writable paths, for read-only
// and writable paths that are on a mount of the host, for paths that must be missing, and for
// masks. A line without a prefix names a directory that must still be the one that the plan saw.
const (
	readPrefix   = "ro "
	writePrefix  = "rw "
	onPrefix     = "on "
	absentPrefix = "absent "
	maskPrefix   = "mask"
)

// CheckBinds runs inside the sandbox and checks whether the paths are as Binds recorded them. If
// there are any mounts, it also checks the masks, and whether read-only paths are read-only. text
// is the result of Binds; CheckBinds ignores other lines in it.
func CheckBinds(text []byte, mounting bool) error {
	if mounting {
		if err := checkMasks(text); err != nil {
			return err
		}
	}
	for line := range strings.SplitSeq(string(text), "\x00") {
		var st unix.Stat_t
		if name, ok := strings.CutPrefix(line, absentPrefix); ok {
			switch err := unix.Stat(name, &st); {
			case err == nil:
				return fmt.Errorf("%s: it was not there when the sandbox was planned", name)
			case !errors.Is(err, unix.ENOENT) && !errors.Is(err, unix.ENOTDIR) && !errors.Is(err, unix.ELOOP):
				return fmt.Errorf("look at %s, which must not be there: %w", name, err)
			}
			continue
		}
		line, readOnly := strings.CutPrefix(line, readPrefix)
		line, writable := strings.CutPrefix(line, writePrefix)
		head, name, _ := strings.Cut(line, "/")
		var id plan.FileID
		if n, _ := fmt.Sscanf(head, "%d %d", &id.Dev, &id.Ino); n != 2 {
			continue
		}
		name = "/" + name
		fd, err := openShown(name)
		if err == nil && fd >= 0 {
			err = checkBind(fd, id, mounting && (readOnly || writable), mounting && readOnly)
			_ = unix.Close(fd)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

// openShown opens the file at a path inside the sandbox. It returns -1 if the permissions of
// another user's directory forbid that: the command cannot see such a file either, so nothing was
// shown by mistake.
//
// Scenario: while openShown examines the path, another command of the same user replaces a parent
// directory by a link, or removes its own search permission there, and undoes this before the
// command runs.
func openShown(name string) (int, error) {
	fd, err := openCanonical(name)
	if errors.Is(err, unix.EACCES) && unreachable(name) {
		return -1, nil
	}
	return fd, err
}

// TryAgain is appended to errors that occur because another process moved or mounted files while
// bwrap was at work.
const TryAgain = " while the sandbox was made; try again"

// errMoved means that bwrap has mounted a file at a different path from the requested one.
var errMoved = errors.New("nothing is mounted there: directories were moved" + TryAgain)

// errWritable is the reason why a mount may be writable.
var errWritable = errors.New("bwrap could not make it read-only, or it changed after the sandbox plan was made")

// checkBind runs inside the sandbox. It checks the file that is open as fd: whether it is the file
// that the plan saw (id), whether it is the root of a mount (if mounted), and whether it is
// read-only (if readOnly).
//
// Scenario: /ws and the file /ws/f are writable, and /secret is denied. A command in another
// sandbox, which may also write /ws, exchanges /ws/f three times. When bwrap opens the source of
// the mount, /ws/f is a link to /secret. When bwrap mounts, /ws/f is a link to another file of the
// workspace. When checkBind runs, /ws/f is the original file again. So bwrap has mounted /secret,
// writable, on that other file. bwrap makes one mount for each path, so no mount is at /ws/f, and
// checkBind returns errMoved.
//
// Scenario: bwrap binds a directory, and makes it read-only by its path in a second step. Between
// the two steps, a file system of the host is mounted on the directory and propagates into the
// sandbox. bwrap then makes that file system read-only instead of the directory. When the host
// unmounts the file system, the directory is writable.
func checkBind(fd int, id plan.FileID, mounted, readOnly bool) error {
	st, err := statOf(fd)
	if err != nil {
		return err
	}
	var fs unix.Statfs_t
	switch {
	case fileID(st) != id:
		return errors.New("it changed after the sandbox plan was made")
	case mounted && !isMountRoot(st):
		return errMoved
	case !readOnly:
		return nil
	}
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return fmt.Errorf("look at its mount: %w", err)
	}
	if fs.Flags&unix.ST_RDONLY == 0 {
		return errors.New("it is not read-only: a file system was mounted on it" + TryAgain)
	}
	return nil
}

// statOf returns the statx of an open file.
func statOf(fd int) (*unix.Statx_t, error) {
	var st unix.Statx_t
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st); err != nil {
		return nil, fmt.Errorf("look at it: %w", err)
	}
	return &st, nil
}

func fileID(st *unix.Statx_t) plan.FileID {
	return plan.FileID{Dev: unix.Mkdev(st.Dev_major, st.Dev_minor), Ino: st.Ino}
}

// isMountRoot reports whether a file is the root of a mount. Before Linux 5.8 the kernel does not
// report that, and isMountRoot returns true.
func isMountRoot(st *unix.Statx_t) bool {
	return st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0
}

// checkMasks checks, inside the sandbox, whether the masks of Binds are at their paths.
func checkMasks(text []byte) error {
	for line := range strings.SplitSeq(string(text), "\x00") {
		var id plan.FileID
		var mode uint32
		head, name, _ := strings.Cut(line, "/")
		if n, _ := fmt.Sscanf(head, maskPrefix+" %d %d %o", &id.Dev, &id.Ino, &mode); n < 3 {
			continue
		}
		if err := checkMask("/"+name, id, mode); err != nil {
			return fmt.Errorf("/%s: %w", name, err)
		}
	}
	return nil
}

// checkMask runs inside the sandbox. It checks whether a path shows a mask, and not the file that
// the plan saw there. If another process replaces a parent directory by a link while bwrap works,
// bwrap mounts the mask at the link's target.
func checkMask(name string, hidden plan.FileID, mode uint32) error {
	fd, err := openShown(name)
	if err != nil || fd < 0 {
		return err
	}
	defer unix.Close(fd)
	st, err := statOf(fd)
	if err != nil {
		return err
	}
	if !isMountRoot(st) || fileID(st) == hidden || uint32(st.Mode)&0o7777 != mode {
		return errors.New("it is not masked: directories were moved" + TryAgain)
	}
	return nil
}

// CheckWritable checks that only the writable paths of Binds, and paths below them, can be written.
// bwrap may have followed a link and mounted something writable at another path. process is "self"
// inside the sandbox. If the sandbox has no /proc, process is the number of a process in the
// sandbox.
func CheckWritable(text []byte, process string) error {
	mounts, err := mountinfo.Read(process)
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	return checkWritable(text, string(mounts))
}

// checkWritable is CheckWritable for the text of a mountinfo.
//
// Scenario: /ws is writable, /ws/vendor is read-only, and a file system is mounted at /ws/vendor/x.
// bwrap shows this file system twice: writable, as a part of /ws, and read-only, as a part of
// /ws/vendor. The mount of /ws/vendor covers the writable one, so no path leads to it.
//
// Scenario: the first one of checkBind, but a file system of the host is mounted at /ws/d/f. bwrap
// shows it as a part of /ws. So a mount begins at /ws/d/f even if bwrap has made the plan's mount
// elsewhere.
func checkWritable(text []byte, mounts string) error {
	places := map[string]bool{"/dev": true, "/proc": true} // may this path be written?
	var onMounts []string
	for line := range strings.SplitSeq(string(text), "\x00") {
		head, name, _ := strings.Cut(line, "/")
		if strings.HasPrefix(head, writePrefix) {
			places["/"+name] = true
		} else if strings.HasPrefix(head, readPrefix) || strings.HasPrefix(head, maskPrefix) {
			places["/"+name] = false
		} else if head == onPrefix {
			onMounts = append(onMounts, "/"+name)
		}
	}
	entries, err := mountinfo.Parse(mounts)
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	tree := mountinfo.NewTree(entries)
	for _, at := range onMounts {
		if !tree.OnMount(at) {
			return fmt.Errorf("%s: %w", at, errMoved)
		}
	}
	for i := range entries {
		m := &entries[i]
		if !m.Writable || nearestPlace(places, m.At) || tree.Covered(m) || unreachable(m.At) {
			continue
		}
		return fmt.Errorf("%s can be written, which the policy does not allow: %w", m.At, errWritable)
	}
	return nil
}

// nearestPlace returns the entry of places for a path, or for its nearest parent that has one.
func nearestPlace(places map[string]bool, at string) bool {
	for {
		if writable, known := places[at]; known || at == "/" {
			return writable
		}
		at = path.Dir(at)
	}
}

// unreachable reports whether this process cannot reach a path because of the permissions of
// another user's directory. Only that user can change these permissions.
//
// Scenario: docker mounts file systems below /var/lib/docker, which only root can enter. bwrap,
// started by an ordinary user, cannot make them read-only, and no process in the sandbox can reach
// them.
func unreachable(at string) bool {
	dir, err := unix.Open("/", unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(dir) }()
	for name := range strings.SplitSeq(strings.Trim(at, "/"), "/") {
		next, err := unix.Openat(dir, name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if errors.Is(err, unix.EACCES) {
			var st unix.Stat_t
			return unix.Fstat(dir, &st) == nil && int(st.Uid) != unix.Geteuid()
		}
		if err != nil {
			return false
		}
		_ = unix.Close(dir)
		dir = next
	}
	return false
}

// ParentOf returns the process id of a process's parent, or 0 if the process has ended.
func ParentOf(pid int) int {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text[max(0, bytes.LastIndexByte(text, ')')):]), " ")
	parent := 0
	var state string
	_, _ = fmt.Sscanf(rest, "%s %d", &state, &parent)
	return parent
}
