package watch

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// Instance is an inotify instance, which several watches share: a user may have as few as 128. The
// zero Instance is ready to use. It takes a descriptor while it has watches.
//
// No goroutine reads the kernel's queue. A watch that waits for its events reads the queue for all
// watches, and passes on the events of the others.
type Instance struct {
	mu      sync.Mutex
	fd      int
	members int
	users   map[int32][]*member // which watches watch a file, by watch descriptor
	watched int                 // the number of members in users
}

// member is the part of an Instance that belongs to one watch.
type member struct {
	in      *Instance
	inotify int // the descriptor of the instance
	wake    int // an eventfd, which is readable while pending or lost are set

	// These need Instance.mu.
	wds     map[int32]struct{}
	pending []byte // events that other watches have read, in the kernel's format
	lost    bool   // events were dropped
}

// join returns a new part of the instance. The caller must call leave.
func (in *Instance) join() (*member, error) {
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return nil, err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.members == 0 {
		if in.fd, err = unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK); err != nil {
			_ = unix.Close(wake)
			return nil, err
		}
		in.users, in.watched = make(map[int32][]*member), 0
	}
	in.members++
	return &member{in: in, inotify: in.fd, wake: wake, wds: make(map[int32]struct{})}, nil
}

// leave ends the watches of the member. No other method may be running or called later.
func (m *member) leave() {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	if m.in.members--; m.in.members == 0 {
		_ = unix.Close(m.in.fd)
	} else {
		m.removeAll()
	}
	_ = unix.Close(m.wake)
}

// add watches the file at fd, and returns its watch descriptor.
func (m *member) add(fd int, mask uint32) (int32, error) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	if m.in.watched >= maxInstanceDirectories {
		return 0, &LimitError{"watches that share an inotify instance take at most " + strconv.Itoa(maxInstanceDirectories) + " directories together: watch smaller ones"}
	}
	n, err := unix.InotifyAddWatch(m.inotify, "/proc/self/fd/"+strconv.Itoa(fd), mask|unix.IN_MASK_ADD)
	if err != nil {
		return 0, err
	}
	wd := int32(n)
	if _, known := m.wds[wd]; !known {
		m.wds[wd] = struct{}{}
		m.in.watched++
		m.in.users[wd] = append(m.in.users[wd], m)
	}
	return wd, nil
}

// remove ends the watch of a file, unless another member watches it.
func (m *member) remove(wd int32) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	m.drop(wd)
}

// reset ends all watches, and drops the events that were not read.
func (m *member) reset() {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	m.removeAll()
	m.pending, m.lost = nil, false
}

// removeAll ends all watches. The kernel queues an event for each. Those of a large tree would fill
// the queue, and the other members would lose theirs. Therefore removeAll reads the queue too.
func (m *member) removeAll() {
	const step = eventBytes / unix.SizeofInotifyEvent / 2
	removed := 0
	for wd := range m.wds {
		m.drop(wd)
		if removed++; removed%step == 0 {
			_ = m.in.distribute()
		}
	}
}

// drop is remove with the lock held.
func (m *member) drop(wd int32) {
	if _, ok := m.wds[wd]; !ok {
		return
	}
	delete(m.wds, wd)
	m.in.watched--
	users := slices.DeleteFunc(m.in.users[wd], func(u *member) bool { return u == m })
	if len(users) > 0 {
		m.in.users[wd] = users
		return
	}
	delete(m.in.users, wd)
	_, _ = unix.InotifyRmWatch(m.inotify, uint32(wd))
}

// sources returns the two descriptors that have events when read may return some.
func (m *member) sources() []unix.PollFd {
	return []unix.PollFd{{Fd: int32(m.inotify), Events: unix.POLLIN}, {Fd: int32(m.wake), Events: unix.POLLIN}}
}

// read returns events of the member in the kernel's format, at most about eventBytes, without
// waiting for one. If events were lost, it returns an IN_Q_OVERFLOW.
func (m *member) read() ([]byte, error) {
	m.in.mu.Lock()
	defer m.in.mu.Unlock()
	if len(m.pending) == 0 && !m.lost {
		if err := m.in.distribute(); err != nil {
			return nil, err
		}
	}
	b := m.pending
	switch {
	case m.lost:
		m.lost, m.pending, b = false, nil, overflowEvent()
	case len(b) > eventBytes:
		n := 0
		for n < eventBytes {
			n += eventLength(b[n:])
		}
		b, m.pending = b[:n:n], b[n:]
		return b, nil
	default:
		m.pending = nil
	}
	var woken [8]byte
	_, _ = unix.Read(m.wake, woken[:])
	return b, nil
}

// distribute reads part of the kernel's queue, without waiting, and gives each event to the members
// that watch its file. The caller holds the lock.
func (in *Instance) distribute() error {
	var buf [eventBytes]byte
	n, err := unix.Read(in.fd, buf[:])
	if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EINTR) {
		return nil
	}
	if err != nil {
		return err
	}
	for b := buf[:n]; len(b) >= unix.SizeofInotifyEvent; {
		size := min(eventLength(b), len(b))
		event := b[:size]
		b = b[size:]
		wd, mask := int32(binary.NativeEndian.Uint32(event)), binary.NativeEndian.Uint32(event[4:])
		if mask&unix.IN_Q_OVERFLOW != 0 {
			for _, users := range in.users {
				for _, m := range users {
					m.lose()
				}
			}
			continue
		}
		for _, m := range in.users[wd] {
			m.put(event)
		}
		if mask&unix.IN_IGNORED != 0 { // the kernel has ended the watch
			for _, m := range in.users[wd] {
				delete(m.wds, wd)
				in.watched--
			}
			delete(in.users, wd)
		}
	}
	return nil
}

// put adds an event for the member.
func (m *member) put(event []byte) {
	switch {
	case m.lost:
	case len(m.pending)+len(event) > maxPendingBytes:
		m.lose()
	default:
		m.pending = append(m.pending, event...)
		m.signal()
	}
}

// lose drops the events of the member.
func (m *member) lose() {
	m.pending, m.lost = nil, true
	m.signal()
}

func (m *member) signal() { _, _ = unix.Write(m.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0}) }

// eventLength returns the length of the first event in b, which has at least the fixed part of one.
func eventLength(b []byte) int {
	return unix.SizeofInotifyEvent + int(binary.NativeEndian.Uint32(b[12:]))
}

// overflowEvent returns the event of the kernel that says that events were lost.
func overflowEvent() []byte {
	b := binary.NativeEndian.AppendUint32(nil, 1<<32-1) // a watch descriptor of -1
	b = binary.NativeEndian.AppendUint32(b, unix.IN_Q_OVERFLOW)
	return append(b, make([]byte, unix.SizeofInotifyEvent-len(b))...)
}
