package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// FindBwrap returns the bwrap of the system. What lies below the current
// directory, or in one of the others, is not taken: a workspace could bring
// its own.
func FindBwrap(others ...string) (string, error) {
	cwd, err := os.Getwd()
	if err != nil {
		return "", err
	}
	foreign := func(program string) bool {
		for _, dir := range append(others, cwd) {
			if dir != "/" && below(program, dir) {
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
	return "", errors.New("bubblewrap is unavailable: there is no bwrap on PATH; install your system's bubblewrap")
}

// Binds are the places that the plan shows or masks, with what the plan saw
// there: bwrap follows links, so the second stage looks whether it has mounted
// what was meant, and where. The error says that something has moved already.
func (plan *Plan) Binds() ([]byte, error) {
	var text []byte
	seen := make(map[string]bool)
	for _, m := range slices.Backward(plan.Mounts) {
		if seen[m.Target] || m.Kind == Link {
			continue
		}
		seen[m.Target] = true
		id := m.ID
		if m.Kind == EmptyDir || m.Kind == EmptyFile {
			// A view has a /dev and a /proc of its own.
			if !below(m.Target, "/dev") && !below(m.Target, "/proc") {
				text = fmt.Appendf(text, "%s %d %d %o %s\x00", maskPrefix, id.Dev, id.Ino, m.Mode, m.Target)
			}
			continue
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", m.Source, err)
		}
		now := idOf(fd)
		_ = unix.Close(fd)
		if id != (FileID{}) && now != id {
			return nil, fmt.Errorf("look at %s: %w", m.Source, ErrAppeared)
		}
		text = fmt.Appendf(text, "%d %d %s\x00", now.Dev, now.Ino, m.Target)
	}
	for _, name := range plan.Absent {
		text = fmt.Appendf(text, "%s%s\x00", absentPrefix, name)
	}
	return text, nil
}

// absentPrefix begins the lines of Binds for what must not be there, and
// maskPrefix those for masks.
const (
	absentPrefix = "absent "
	maskPrefix   = "mask"
)

// CheckBinds looks, inside, whether the places are those of Binds, masks included
// if there are any mounts.
func CheckBinds(text []byte, mounting bool) error {
	if mounting {
		if err := checkMasks(text); err != nil {
			return err
		}
	}
	for line := range strings.SplitSeq(string(text), "\x00") {
		var id FileID
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
		head, name, _ := strings.Cut(line, "/")
		if n, _ := fmt.Sscanf(head, "%d %d", &id.Dev, &id.Ino); n != 2 {
			continue
		}
		err := unix.Lstat("/"+name, &st)
		if err == nil && (uint64(st.Dev) != id.Dev || st.Ino != id.Ino) {
			err = errors.New("it is something else than when the sandbox was planned")
		}
		// What cannot be seen from inside was not shown by mistake.
		if err != nil && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("/%s: %w", name, err)
		}
	}
	return nil
}

// checkMasks looks, inside, whether the masks of Binds are in their places.
func checkMasks(text []byte) error {
	for line := range strings.SplitSeq(string(text), "\x00") {
		var id FileID
		var mode uint32
		head, name, _ := strings.Cut(line, "/")
		if n, _ := fmt.Sscanf(head, maskPrefix+" %d %d %o", &id.Dev, &id.Ino, &mode); n < 3 {
			continue
		}
		if err := checkMask("/"+name, id, mode); err != nil {
			return err
		}
	}
	return nil
}

// checkMask looks, inside, whether a path shows a mask, and not what the plan
// saw there. If another process exchanges a directory above with a link while
// bwrap works, bwrap mounts the mask where the link leads.
func checkMask(name string, hidden FileID, mode uint32) error {
	var st unix.Statx_t
	err := unix.Statx(unix.AT_FDCWD, name, unix.AT_SYMLINK_NOFOLLOW|unix.AT_NO_AUTOMOUNT, unix.STATX_BASIC_STATS, &st)
	switch {
	case errors.Is(err, unix.EACCES):
		return nil // it cannot be seen
	case err != nil:
		return fmt.Errorf("%s: %w", name, err)
	}
	mounted := st.Attributes_mask&unix.STATX_ATTR_MOUNT_ROOT == 0 || st.Attributes&unix.STATX_ATTR_MOUNT_ROOT != 0 // from Linux 5.8 on
	shown := FileID{unix.Mkdev(st.Dev_major, st.Dev_minor), st.Ino}
	if !mounted || shown == hidden || uint32(st.Mode)&0o7777 != mode {
		return fmt.Errorf("%s: it is not masked: directories were moved while the sandbox was made", name)
	}
	return nil
}

// CheckWritable looks, inside, whether anything else than the places of Binds is
// mounted writable: bwrap may have followed a link to where it mounted
// something.
func CheckWritable(text []byte) error {
	known := []string{"/dev", "/proc"}
	for line := range strings.SplitSeq(string(text), "\x00") {
		if head, name, found := strings.Cut(line, "/"); found && head != absentPrefix && !strings.HasPrefix(head, maskPrefix) {
			known = append(known, "/"+name)
		}
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return fmt.Errorf("read the mounts: %w", err)
	}
	for line := range strings.Lines(string(mounts)) {
		fields := strings.Fields(line)
		if len(fields) < 6 || !strings.HasPrefix(fields[5]+",", "rw,") {
			continue
		}
		at := unescapeMount(fields[4])
		if !slices.ContainsFunc(known, func(dir string) bool { return below(at, dir) }) {
			return fmt.Errorf("%s can be written: it is something else than when the sandbox was planned", at)
		}
	}
	return nil
}

// unescapeMount undoes the octal escapes of mountinfo.
func unescapeMount(name string) string {
	if !strings.Contains(name, `\`) {
		return name
	}
	var b []byte
	for i := 0; i < len(name); i++ {
		if n, err := strconv.ParseUint(name[i+1:min(i+4, len(name))], 8, 8); name[i] == '\\' && err == nil && i+3 < len(name) {
			b = append(b, byte(n))
			i += 3
			continue
		}
		b = append(b, name[i])
	}
	return string(b)
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
