// Package dirfd works on the names in an open directory without following links: what
// another process does to a path meanwhile leads nowhere else. Copies of whole trees
// use it, at both ends.
//
//	root, err := dir.Open("/srv/project")
//	sub, err := root.Enter("src")
//	f, err := sub.Create(".random.tmp", 0o644)
//	err = sub.Rename(".random.tmp", "main.go")
//
// A name is one component of a path: callers check it with ValidName, and never pass
// one with a separator. A Dir and a File are for one goroutine at a time.
package dirfd

import (
	"errors"
	"time"
)

// Kind is what a name stands for.
type Kind uint8

// The kinds of names.
const (
	Regular Kind = iota
	Directory
	Link
	Other // a device, a FIFO or a socket
)

// Info describes a name itself: of a link, not of its target.
type Info struct {
	Kind     Kind
	Size     int64  // in bytes
	Perm     uint32 // the nine permission bits
	Modified time.Time
	UID, GID uint32 // 0 on Windows
	// HasHoles says that the file takes less room on disk than its size, so that
	// looking for holes is worth it.
	HasHoles bool
}

var (
	// ErrLink is the error of entering or opening a symbolic link.
	ErrLink = errors.New("there is a symbolic link here, which is not followed")
	// ErrNotDirectory is the error of entering something else that is no directory.
	ErrNotDirectory = errors.New("there is something here that is not a directory")
	// ErrNotRegular is the error of opening anything but a regular file.
	ErrNotRegular = errors.New("it is not a regular file")
	// ErrProc refuses to write below /proc, where files are a program's memory and its
	// descriptors.
	ErrProc = errors.New("it is in /proc, where nothing is written")
	// ErrTooManyNames means that a directory has more names than the caller takes.
	ErrTooManyNames = errors.New("the directory has too many names")
)
