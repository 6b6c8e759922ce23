package sandbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
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

// BwrapKnows reports whether bwrap has an option.
func BwrapKnows(program, option string) bool {
	cmd := exec.Command(program, "--help")
	cmd.Env = []string{}
	help, err := cmd.CombinedOutput()
	return err == nil && bytes.Contains(help, []byte(option+" "))
}

// Binds are the places that the plan shows, with what is there: bwrap follows
// links, so the second stage looks whether it has mounted what was meant.
func (plan *Plan) Binds() ([]byte, error) {
	var text []byte
	seen := make(map[string]bool)
	for _, m := range slices.Backward(plan.Mounts) {
		if seen[m.Target] {
			continue
		}
		seen[m.Target] = true
		if m.Kind != BindReadOnly && m.Kind != BindWritable {
			continue
		}
		fd, err := unix.Openat2(unix.AT_FDCWD, m.Source, &unix.OpenHow{
			Flags: unix.O_PATH | unix.O_CLOEXEC | unix.O_NOFOLLOW, Resolve: unix.RESOLVE_NO_SYMLINKS})
		if err != nil {
			return nil, fmt.Errorf("open %s: %w", m.Source, err)
		}
		var st unix.Stat_t
		err = unix.Fstat(fd, &st)
		_ = unix.Close(fd)
		if err != nil {
			return nil, fmt.Errorf("look at %s: %w", m.Source, err)
		}
		text = fmt.Appendf(text, "%d %d %s\x00", st.Dev, st.Ino, m.Target)
	}
	for _, name := range plan.Absent {
		text = fmt.Appendf(text, "%s%s\x00", absentPrefix, name)
	}
	return text, nil
}

// absentPrefix begins the lines of Binds for what must not be there.
const absentPrefix = "absent "

// CheckBinds looks, inside, whether the places are those of Binds.
func CheckBinds(text []byte) error {
	for line := range strings.SplitSeq(string(text), "\x00") {
		var dev, ino uint64
		var st unix.Stat_t
		if name, ok := strings.CutPrefix(line, absentPrefix); ok {
			if unix.Stat(name, &st) == nil {
				return fmt.Errorf("%s: it was not there when the sandbox was planned", name)
			}
			continue
		}
		head, name, _ := strings.Cut(line, "/")
		if n, _ := fmt.Sscanf(head, "%d %d", &dev, &ino); n != 2 {
			continue
		}
		err := unix.Lstat("/"+name, &st)
		if err == nil && (uint64(st.Dev) != dev || st.Ino != ino) {
			err = errors.New("it is something else than when the sandbox was planned")
		}
		// What cannot be seen from inside was not shown by mistake.
		if err != nil && !errors.Is(err, unix.EACCES) {
			return fmt.Errorf("/%s: %w", name, err)
		}
	}
	return nil
}

// CheckWritable looks, inside, whether anything else than the places of Binds is
// mounted writable: bwrap may have followed a link to where it mounted
// something.
func CheckWritable(text []byte) error {
	known := []string{"/dev", "/proc"}
	for line := range strings.SplitSeq(string(text), "\x00") {
		if head, name, found := strings.Cut(line, "/"); found && head != absentPrefix {
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
