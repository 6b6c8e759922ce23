package soak

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"codex.internal/cmd/codex/e2e/harness"
)

// proportionalMemory returns the resident memory of a process in bytes. Pages that several
// processes share are counted in proportion.
func proportionalMemory(pid int) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/smaps_rollup", pid))
	for line := range strings.Lines(string(text)) {
		if fields := strings.Fields(line); len(fields) > 1 && fields[0] == "Pss:" {
			kb, _ := strconv.ParseInt(fields[1], 10, 64)
			return kb << 10
		}
	}
	return 0
}

// entries counts the entries of a directory.
func entries(dir string) int {
	names, _ := os.ReadDir(dir)
	return len(names)
}

// targets returns the targets of the links in a directory.
func targets(dir string) (found []string) {
	names, _ := os.ReadDir(dir)
	for _, name := range names {
		if to, err := os.Readlink(filepath.Join(dir, name.Name())); err == nil {
			found = append(found, to)
		}
	}
	slices.Sort(found)
	return found
}

// lines counts the lines of a file.
func lines(name string) int {
	text, _ := os.ReadFile(name)
	return bytes.Count(text, []byte("\n"))
}

// countDirectories counts the directories below a directory.
func countDirectories(dir string) int {
	if dir == "" {
		return 0
	}
	count := -1
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			count++
		}
		return nil // other goroutines and processes remove some meanwhile
	})
	return max(count, 0)
}

// processes returns the server, its descendants, and all processes whose command line contains the
// soak's directory. If no other program uses the server's user, it also returns all processes of
// that user. It does not return this program.
func (s *soak) processes() (ours []harness.Process) {
	all := harness.Processes()
	parents := make(map[int]int)
	for _, p := range all {
		parents[p.PID] = p.Parent
	}
	for _, p := range all {
		named := s.User != nil && p.UID == int(s.User.Uid) || strings.Contains(p.Command, s.Dir)
		if p.PID != os.Getpid() && (named || descends(parents, p.PID, s.server.pid())) {
			ours = append(ours, p)
		}
	}
	return ours
}

// owns reports whether a file belongs to the server's user. It returns false if other programs use
// that user.
func (s *soak) owns(info os.FileInfo) bool {
	return s.User != nil && info.Sys().(*syscall.Stat_t).Uid == s.User.Uid
}

// descends reports whether pid is the process from, or one of its descendants.
func descends(parents map[int]int, pid, from int) bool {
	for range len(parents) {
		if pid == from {
			return true
		}
		if pid = parents[pid]; pid == 0 {
			return false
		}
	}
	return false
}

// mountNamespaces counts the mount namespaces of processes, except the server's.
func mountNamespaces(server int, of []harness.Process) int {
	own, _ := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", server))
	seen := make(map[string]bool)
	for _, p := range of {
		if ns, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/mnt", p.PID)); err == nil && ns != own {
			seen[ns] = true
		}
	}
	return len(seen)
}

// publicDirectories are the directories in which programs that ignore TMPDIR create temporary
// files.
var publicDirectories = []string{"/tmp", "/var/tmp", "/dev/shm"}

// leftFiles returns leftover files: files in the server's temporary directory and among its
// detached processes; files in the workspaces outside of the turns' own directories; files in the
// directory beside them, which must not be written; and files of the server's user in the public
// directories.
func (s *soak) leftFiles() []string {
	found := below(filepath.Join(s.Dir, "tmp"))
	found = append(found, below(filepath.Join(s.Dir, "beside"))...)
	found = append(found, below(filepath.Join(s.Dir, "home/detached"))...)
	workspaces, _ := filepath.Glob(filepath.Join(s.Dir, "work/*/*"))
	for _, path := range workspaces {
		if _, err := strconv.Atoi(filepath.Base(path)); err != nil {
			found = append(found, path)
		}
	}
	for _, dir := range publicDirectories {
		names, _ := os.ReadDir(dir)
		for _, name := range names {
			if info, err := name.Info(); err == nil && s.owns(info) {
				found = append(found, filepath.Join(dir, name.Name()))
			}
		}
	}
	return found
}

// below returns the files below a directory.
func below(dir string) (found []string) {
	_ = filepath.WalkDir(dir, func(path string, _ os.DirEntry, err error) error {
		if err == nil && path != dir {
			found = append(found, path)
		}
		return nil // other goroutines and processes remove some meanwhile
	})
	return found
}
