package files

import (
	"bytes"
	"context"
	"encoding/binary"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// dirent is a name in a directory and the type of its file: one of unix.S_IFMT, or
// 0 if the file no longer exists.
type dirent struct {
	name string
	mode uint32
}

var direntBuffers = sync.Pool{New: func() any { return new([direntBuffer]byte) }}

// readNames reads names from an open directory, beginning at its current offset, until it has at
// least limit names. whole reports that it has reached the end.
func readNames(ctx context.Context, fd, limit int) (names []dirent, whole bool, err error) {
	buf := direntBuffers.Get().(*[direntBuffer]byte)
	defer direntBuffers.Put(buf)
	for len(names) < limit {
		if err := checkContext(ctx); err != nil {
			return nil, false, err
		}
		var n int
		err := retry(func() (err error) {
			n, err = unix.ReadDirent(fd, buf[:])
			return err
		})
		if err != nil {
			return nil, false, err
		}
		if n == 0 {
			return names, true, nil
		}
		names = appendNames(names, fd, buf[:n])
	}
	return names, false, nil
}

func appendNames(names []dirent, fd int, buf []byte) []dirent {
	for len(buf) > direntName {
		length := int(binary.NativeEndian.Uint16(buf[direntLength:]))
		if length <= direntName || length > len(buf) {
			return names // not from a kernel
		}
		entry := buf[:length]
		buf = buf[length:]
		name := entry[direntName:]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		if string(name) == "." || string(name) == ".." || binary.NativeEndian.Uint64(entry[direntInode:]) == 0 {
			continue
		}
		names = append(names, dirent{string(name), entryMode(fd, string(name), entry[direntType])})
	}
	return names
}

// entryMode returns the mode bits for the type of an entry. If the file system does not report the
// type, it calls stat.
func entryMode(fd int, name string, kind byte) uint32 {
	if kind != unix.DT_UNKNOWN {
		return uint32(kind) << 12 // as IFTODT and DTTOIF define it
	}
	var st unix.Stat_t
	if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
		return 0
	}
	return fileType(&st)
}

// sortedNames reads all names of an open directory, sorted by their bytes. If there are more than
// limit names, the error is ErrTooManyNames.
func sortedNames(ctx context.Context, fd, limit int) ([]dirent, error) {
	names, whole, err := readNames(ctx, fd, limit+1)
	if err != nil {
		return nil, err
	}
	if !whole || len(names) > limit {
		return nil, ErrTooManyNames
	}
	slices.SortFunc(names, func(a, b dirent) int { return strings.Compare(a.name, b.name) })
	return names, nil
}

// openNames opens a directory and reads its names, sorted by their bytes. If there are more than
// maxNames names, the error is ErrTooManyNames. The caller closes the descriptor.
func openNames(ctx context.Context, name string) (fd int, names []dirent, err error) {
	fd, err = open(name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NONBLOCK, 0, Options{})
	if err != nil {
		return -1, nil, err
	}
	names, err = sortedNames(ctx, fd, maxNames)
	if err != nil {
		_ = unix.Close(fd)
		return -1, nil, wrap(name, err)
	}
	return fd, names, nil
}
