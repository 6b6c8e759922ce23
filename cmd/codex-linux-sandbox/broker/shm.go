package broker

import (
	"sync"

	"golang.org/x/sys/unix"
)

// The C library keeps POSIX semaphores and shared memory in /dev/shm, which is the host's. The command may make files there, and change
// and remove those that it has made. The broker knows them by their inodes, and holds each, so that the number is not used again. A file
// gets there only by being made: nothing can be renamed into the directory.

const sharedMemory = "/dev/shm"

// sharedFiles are the files of a sandbox in /dev/shm.
type sharedFiles struct {
	mu   sync.Mutex
	held map[inode]int
}

// room forgets files that are gone, and returns an error if there is no room for another.
func (s *sharedFiles) room() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.held) < maxShared {
		return nil
	}
	forgetGone(s.held) // another process may have removed them
	if len(s.held) >= maxShared {
		return unix.ENOSPC
	}
	return nil
}

// forgetGone drops the files that have no name any more.
func forgetGone(all map[inode]int) {
	for id, file := range all {
		var st unix.Stat_t
		if unix.Fstat(file, &st) == nil && st.Nlink == 0 {
			drop(file)
			delete(all, id)
		}
	}
}

// forget drops the files that have no name any more, so that the kernel can free their memory.
func (s *sharedFiles) forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	forgetGone(s.held)
}

// add notes a new file by its descriptor.
func (s *sharedFiles) add(fd int) error {
	var st unix.Stat_t
	file, err := unix.Open(held(fd), unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	if err := unix.Fstat(file, &st); err != nil {
		drop(file)
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held[inode{uint64(st.Dev), st.Ino}] = file
	return nil
}

// owns reports whether a held file is one of them.
func (s *sharedFiles) owns(file int) bool {
	var st unix.Stat_t
	if unix.Fstat(file, &st) != nil || st.Mode&unix.S_IFMT != unix.S_IFREG {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	_, ok := s.held[inode{uint64(st.Dev), st.Ino}]
	return ok
}

// ownsName reports whether a name is that of one of them.
func (s *sharedFiles) ownsName(n *named) bool {
	file, err := unix.Openat(n.dir, n.name, unix.O_PATH|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return false
	}
	defer drop(file)
	return s.owns(file)
}
