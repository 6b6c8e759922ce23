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

// Find returns the bwrap of the system. A bwrap below the current directory, or
// in one of the other directories, is ignored, because a workspace could
// contain its own.
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

// Binds returns the paths that the plan shows or masks, with the identities
// that the plan saw there. bwrap follows links, so the second stage checks
// whether it has mounted the right files at the right paths. The error means
// that a path has already been moved.
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
			// A view has a /dev and a /proc of its own.
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

// statCanonical returns the status of the file at a path without links.
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

// The prefixes of the lines of Binds: for read-only and for writable paths, for those of
// them that are on a mount of the host, for paths that must be missing, and for masks.
// Lines without a prefix are directories that must only be the ones that the plan saw.
const (
	readPrefix   = "ro "
	writePrefix  = "rw "
	onPrefix     = "on "
	absentPrefix = "absent "
	maskPrefix   = "mask"
)

// CheckBinds checks, inside the sandbox, whether the paths are as in Binds. If there
// are any mounts, it also checks the masks and whether read-only paths are read-only.
// text is the result of Binds; other lines in it are ignored.
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

// openShown opens, inside, what a place shows. It returns -1 if a directory of another
// user keeps this process from it: what cannot be seen was not shown by mistake.
//
// Scenario: another command of the same user puts a link into the place of a directory
// above, or takes its own right to search that away, while the place is examined, and
// undoes that before the command runs.
func openShown(name string) (int, error) {
	fd, err := openCanonical(name)
	if errors.Is(err, unix.EACCES) && unreachable(name) {
		return -1, nil
	}
	return fd, err
}

// TryAgain ends errors that are caused by others moving or mounting files while bwrap was
// at work.
const TryAgain = " while the sandbox was made; try again"

// errMoved means that bwrap has mounted a file at another path than it was told.
var errMoved = errors.New("nothing is mounted there: directories were moved" + TryAgain)

// errWritable is the reason why a mount may be writable.
var errWritable = errors.New("bwrap could not make it read-only, or it changed after the sandbox plan was made")

// checkBind looks, inside, whether what a place shows is id, whether it is mounted
// there, and whether it is read-only.
//
// Scenario: /ws and the file /ws/f may be written, and /secret is denied. A command of
// another sandbox, which may write /ws, puts a link to /secret into the place of /ws/f
// when bwrap looks at the source, one to another file of the workspace when bwrap
// mounts, and the file itself when this is called. bwrap has mounted /secret, writable, on
// the other file. It mounts once for each place, so what is elsewhere is missing here.
//
// Scenario: bwrap binds a directory, and makes it read-only in a second step, by its
// path. A file system that arrives there between the two, from a mount of the host that
// propagates, is made read-only in its place; when the host unmounts it, the directory
// can be written.
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

// isMountRoot reports whether a file is the root of a mount, if the kernel reports
// that: it does from Linux 5.8 on.
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

// checkMask checks, inside the sandbox, whether a path shows a mask, and not
// the file that the plan saw there. If another process exchanges a parent
// directory with a link while bwrap works, bwrap mounts the mask at the link's
// target.
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

// CheckWritable checks that nothing can be written except the writable paths of Binds
// and below them: bwrap may have followed a link to another path and mounted there.
// The process is self, inside the sandbox, or the number of a process inside, if that
// has no /proc.
func CheckWritable(text []byte, process string) error {
	mounts, err := mountinfo.Read(process)
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	return checkWritable(text, string(mounts))
}

// checkWritable is CheckWritable for the text of a mountinfo.
//
// Scenario: /ws may be written, /ws/vendor is read-only, and a file system is mounted at
// /ws/vendor/x. bwrap shows that twice: with /ws, where it may be written, and with
// /ws/vendor, which covers the first. No path leads to the first.
//
// Scenario: as that of checkBind, and a file system of the host is mounted at /ws/d/f. It
// is shown with /ws, so that a mount begins at /ws/d/f also if that of the plan does not.
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

// nearestPlace returns the entry of places for a path, or for its nearest parent.
func nearestPlace(places map[string]bool, at string) bool {
	for {
		if writable, known := places[at]; known || at == "/" {
			return writable
		}
		at = path.Dir(at)
	}
}

// unreachable reports whether a directory of somebody else's, which only that owner could
// open to others, keeps this process from a path.
//
// Scenario: docker mounts file systems below /var/lib/docker, which only root can enter.
// bwrap, started by an ordinary user, cannot make them read-only, and nobody inside gets
// to them.
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

// ParentOf is the process id of a process's parent; 0 if it has ended.
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
