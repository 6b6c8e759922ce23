// Package mountinfo reads the mounts of a process (proc_pid_mountinfo(5)), and determines which of them are hidden by
// others. It does not depend on plans. It may import permissions to compare paths.
package mountinfo

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"codex.internal/pkg/sandbox/permissions"
)

// Entry is a line of mountinfo (proc_pid_mountinfo(5)).
type Entry struct {
	ID, Parent string
	Device     string // MAJOR:MINOR
	Root       string // the directory or file of the file system that is mounted
	At         string // the mount point
	Writable   bool   // the mount itself, whatever its file system allows
	Kind       string // of the file system
}

// Parse reads the text of a mountinfo.
//
// Scenario: a directory is called "a\vb", or has U+3000 in its name. The kernel escapes spaces,
// tabs and newlines only. strings.Fields would split at all white space of Unicode, take a part of
// the name for the next field, and take the rest of the name for the options.
func Parse(text string) ([]Entry, error) {
	var entries []Entry
	for line := range strings.Lines(text) {
		head, tail, ok := strings.Cut(line, " - ")
		fields := strings.Split(head, " ")
		if !ok || len(fields) < 6 || !strings.HasPrefix(fields[4], "/") {
			return nil, fmt.Errorf("unknown line %q", line)
		}
		kind, _, _ := strings.Cut(tail, " ")
		entries = append(entries, Entry{
			ID: fields[0], Parent: fields[1], Device: fields[2], Root: unescapeMount(fields[3]), At: unescapeMount(fields[4]),
			Writable: strings.HasPrefix(fields[5]+",", "rw,"), Kind: kind,
		})
	}
	return entries, nil
}

// Tree records which mounts are mounted on which others.
type Tree struct {
	byID map[string]*Entry
	on   map[string][]*Entry // the mounts on a mount, by its id
}

func NewTree(entries []Entry) *Tree {
	t := &Tree{make(map[string]*Entry, len(entries)), make(map[string][]*Entry, len(entries))}
	for i := range entries {
		m := &entries[i]
		t.byID[m.ID] = m
		t.on[m.Parent] = append(t.on[m.Parent], m)
	}
	return t
}

// Covered reports whether another mount hides m, so that no path leads to it. That mount is on the
// root of m, or on the path to m within its parent mount.
func (t *Tree) Covered(m *Entry) bool {
	var child *Entry
	for range len(t.byID) { // the list is read in parts, and ids are reused: there may be a circle
		for _, o := range t.on[m.ID] {
			if o != m && (child == nil && o.At == m.At || child != nil && o.At != child.At && permissions.Within(child.At, o.At)) {
				return true
			}
		}
		if child, m = m, t.byID[m.Parent]; m == nil {
			break
		}
	}
	return false
}

// OnMount reports whether two mounts are at a path, one on top of the other.
func (t *Tree) OnMount(at string) bool {
	for _, m := range t.byID {
		if holder := t.byID[m.Parent]; m.At == at && holder != nil && holder.At == at && !t.Covered(m) {
			return true
		}
	}
	return false
}

// Read reads the mounts of a process, given by its number or "self". os.ReadFile takes three times
// as long: the file is pollable, so the Go runtime starts threads for it, and it has no size, so
// os.ReadFile reads it in small pieces.
func Read(process string) ([]byte, error) {
	fd, err := unix.Open("/proc/"+process+"/mountinfo", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	const piece = 4 << 10 // the kernel returns no more at once
	text := make([]byte, 0, 4*piece)
	for n := 0; ; text = text[:len(text)+n] {
		text = slices.Grow(text, piece)
		if n, err = unix.Read(fd, text[len(text):cap(text)]); err == unix.EINTR {
			n = 0
			continue
		}
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
