// Package dirfd operates on the names in an open directory without following links, so another
// process that changes a path meanwhile cannot redirect an operation. Client and server use it to
// copy whole trees.
//
//	root, err := dirfd.Open("/srv/project")
//	sub, err := root.Enter("src")
//	f, err := sub.Create(".random.tmp", 0o644)
//	err = sub.Rename(".random.tmp", "main.go")
//
// A name is one component of a path. Callers must check it with ValidName, so that it has no
// separator. Only one goroutine at a time may use a Dir or a File.
package dirfd

import (
	"errors"
	"time"
)

// Kind is the type of the file with a name.
type Kind uint8

// The kinds of names.
const (
	Regular Kind = iota
	Directory
	Link
	Other // a device, a FIFO or a socket
)

// Info describes a file. For a link it describes the link itself.
type Info struct {
	Kind     Kind
	Size     int64  // in bytes
	Perm     uint32 // the nine permission bits
	Modified time.Time
	UID, GID uint32 // 0 on Windows
	// HasHoles means that the file takes less space on disk than its size, so it
	// probably has holes.
	HasHoles bool
}

var (
	// ErrLink is the error of entering or opening a symbolic link.
	ErrLink = errors.New("a symbolic link exists here, which is not followed")
	// ErrNotDirectory is the error of entering a file that is neither a directory nor a
	// link.
	ErrNotDirectory = errors.New("a file exists here that is not a directory")
	// ErrNotRegular is the error of opening anything but a regular file.
	ErrNotRegular = errors.New("not a regular file")
	// ErrProc means that a write below /proc is refused: files there are the memory and the
	// descriptors of processes.
	ErrProc = errors.New("files of /proc are not written")
	// ErrTooManyNames means that a directory has more names than the caller accepts.
	ErrTooManyNames = errors.New("the directory has too many names")
)
