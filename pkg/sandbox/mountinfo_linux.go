package sandbox

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// mountEntry is a line of mountinfo (proc_pid_mountinfo(5)).
type mountEntry struct {
	id, parent string
	device     string // MAJOR:MINOR
	at         string // the mount point
	writable   bool   // the mount itself, whatever its file system allows
	kind       string // of the file system
}

// parseMounts reads the text of a mountinfo.
//
// Scenario: a directory is called "a\vb", or has U+3000 in its name. The kernel escapes
// spaces, tabs and newlines, and strings.Fields splits at all white space of Unicode: it
// would take a part of the name for the next field, and the name for the options.
func parseMounts(text string) ([]mountEntry, error) {
	var entries []mountEntry
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Split(head, " ")
		if !ok || len(fields) < 6 || !strings.HasPrefix(fields[4], "/") {
			return nil, fmt.Errorf("unknown line %q", line)
		}
		kind, _, _ := strings.Cut(tail, " ")
		entries = append(entries, mountEntry{
			id: fields[0], parent: fields[1], device: fields[2], at: unescapeMount(fields[4]),
			writable: strings.HasPrefix(fields[5]+",", "rw,"), kind: kind,
		})
	}
	return entries, nil
}

// mountTree tells how mounts lie above each other.
type mountTree struct {
	byID map[string]*mountEntry
	on   map[string][]*mountEntry // what is mounted on a mount, by its id
}

func newMountTree(entries []mountEntry) *mountTree {
	t := &mountTree{make(map[string]*mountEntry, len(entries)), make(map[string][]*mountEntry, len(entries))}
	for i := range entries {
		m := &entries[i]
		t.byID[m.id] = m
		t.on[m.parent] = append(t.on[m.parent], m)
	}
	return t
}

// covered reports whether another mount hides a mount, so that no path leads to it:
// something is mounted on its root, or on the way to it in a mount that holds it.
func (t *mountTree) covered(m *mountEntry) bool {
	var child *mountEntry
	for range len(t.byID) { // the list is read in parts, and ids are used again: there may be a circle
		for _, o := range t.on[m.id] {
			if o != m && (child == nil && o.at == m.at || child != nil && o.at != child.at && below(child.at, o.at)) {
				return true
			}
		}
		if child, m = m, t.byID[m.parent]; m == nil {
			break
		}
	}
	return false
}

// onMount reports whether what is seen at a path is mounted on another mount there.
func (t *mountTree) onMount(at string) bool {
	for _, m := range t.byID {
		if holder := t.byID[m.parent]; m.at == at && holder != nil && holder.at == at && !t.covered(m) {
			return true
		}
	}
	return false
}

// mountinfo reads the mounts of a process: its number, or self. Os.ReadFile takes three times as long:
// the file can be waited for, which the Go runtime starts threads for, and has no size,
// so that it is read in small pieces.
func mountinfo(process string) ([]byte, error) {
	fd, err := unix.Open("/proc/"+process+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	const piece = 4 << 10 // the kernel gives no more at once
	text := make([]byte, 0, 4*piece)
	for n := 0; ; text = text[:len(text)+n] {
		text = slices.Grow(text, piece)
		err := retry(func() (err error) { n, err = unix.Read(fd, text[len(text):cap(text)]); return err })
		if err != nil || n == 0 {
			return text, err
		}
	}
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
