package archive

import (
	"errors"
	"strings"
	"time"
)

// Type is the type of an entry of an archive.
type Type byte

// The types of entries, as in tar archives. POSIX reserves capital letters for extensions.
const (
	File      Type = '0'
	Link      Type = '2'
	Directory Type = '5'
	// Listed is a file without its contents, for archives that only list a tree.
	Listed Type = 'M'
	// Problem describes a file that could not be read. Path may be that of the file before it, which
	// must then be discarded.
	Problem Type = 'P'
)

// Entry is one entry of an archive.
type Entry struct {
	Path string // relative, with slashes; "." is the source itself
	Type Type
	Perm uint32 // the nine permission bits
	Size int64  // for files: the size in bytes, holes included
	// Modified is in whole seconds in archives without times.
	Modified time.Time
	UID, GID uint32
	Target   string // for links
	// Extents are the parts of a sparse file that have data, in ascending order; nil: the whole
	// file.
	Extents []Extent
	Sum     string // SHA-256 of a listed file, in hexadecimal, if requested
	Text    string // for problems
	Discard bool   // for problems: the file before this entry is broken
}

// Extent is a part of a file.
type Extent struct{ Offset, Length int64 }

// stored returns how many bytes of contents follow the header.
func (e *Entry) stored() int64 {
	if e.Type != File {
		return 0
	}
	if e.Extents == nil {
		return e.Size
	}
	total := int64(0)
	for _, x := range e.Extents {
		total += x.Length
	}
	return total
}

var (
	errName = errors.New("not copied: it has a name that leads elsewhere, or that no file can have here")
	errLong = errors.New("not copied: its path is too long")
	errDeep = errors.New("not copied: it is in too many directories in each other")
)

// parts returns the names of a path, or no names for the source itself. It returns an error if
// one of the names must not be used.
func parts(path string, valid func(string) bool) ([]string, error) {
	if len(path) > MaxPath {
		return nil, errLong
	}
	path = strings.TrimSuffix(strings.TrimPrefix(path, "./"), "/")
	if path == "." || path == "" {
		return nil, nil
	}
	names := strings.Split(path, "/")
	if len(names) > MaxDepth {
		return nil, errDeep
	}
	for _, name := range names {
		if !valid(name) {
			return nil, errName
		}
	}
	return names, nil
}
