package localpeer

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"

	"golang.org/x/sys/unix"
)

// sighting is the result of one scan of all processes for one socket.
type sighting struct {
	held     bool   // by a process that is not confined
	confined string // why one of its holders counts as confined; "": none does
	// unreadable are the directories' process ids whose descriptors could not be
	// read.
	unreadable []int
	err        error
}

// batch is one scan of all processes, for all callers that called find before it
// began.
type batch struct {
	done  chan struct{}
	found map[string]*sighting // by the text of the descriptor's link
}

// scans shares scans: one runs at a time, and callers that ask meanwhile wait for
// the next one, so that many connections at once cost no more than two scans.
type scans struct {
	running sync.Mutex
	mu      sync.Mutex
	next    *batch
}

var shared scans

// find finds the holders of a socket by a scan that begins after the call.
func (l *scans) find(inode uint64) sighting {
	link := "socket:[" + strconv.FormatUint(inode, 10) + "]"
	l.mu.Lock()
	b := l.next
	leads := b == nil
	if leads {
		b = &batch{done: make(chan struct{}), found: make(map[string]*sighting)}
		l.next = b
	}
	if b.found[link] == nil {
		b.found[link] = &sighting{}
	}
	seen := b.found[link]
	l.mu.Unlock()
	if leads {
		l.running.Lock()
		l.mu.Lock()
		l.next = nil
		l.mu.Unlock()
		b.run()
		l.running.Unlock()
		close(b.done)
	}
	<-b.done
	return *seen
}

// run scans at every process.
func (b *batch) run() {
	fail := func(err error) {
		for _, s := range b.found {
			s.err = err
		}
	}
	me, err := readSelf()
	if err != nil {
		fail(err)
		return
	}
	pids, err := processes()
	if err != nil {
		fail(err)
		return
	}
	var unreadable []int
	for _, pid := range pids {
		switch err := b.inspect(&me, pid); {
		case errors.Is(err, fs.ErrPermission):
			unreadable = append(unreadable, pid)
		case err != nil && !gone(err):
			fail(err)
			return
		}
	}
	for _, s := range b.found {
		s.unreadable = unreadable
	}
}

// gone reports whether an error says that a process has ended.
func gone(err error) bool {
	return errors.Is(err, unix.ESRCH) || errors.Is(err, fs.ErrNotExist)
}

// processes lists the ids of all processes that /proc shows.
func processes() ([]int, error) {
	names, err := namesIn(unix.AT_FDCWD, "/proc")
	if err != nil {
		return nil, err
	}
	pids := make([]int, 0, len(names))
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids, nil
}

func namesIn(dir int, name string) ([]string, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	return f.Readdirnames(-1)
}

// inspect scans at the descriptors of a process. Threads have tables of their
// own if they ask for that (and a process whose first thread has ended shows
// none): they are looked at where a process is marked as confined.
func (b *batch) inspect(me *self, pid int) error {
	dir, err := openProcess(pid)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	held, err := b.holds(dir, "fd")
	if err != nil {
		return err
	}
	var threads unix.Stat_t
	if err := unix.Fstatat(dir, "task", &threads, 0); err != nil {
		return err
	}
	const one = 3 // links: the directory's name, its dot, and one thread's
	if len(held) == 0 && threads.Nlink <= one {
		return nil
	}
	p, err := readProcess(dir)
	if err != nil {
		return err
	}
	if threads.Nlink > one && me.marked(&p) != "" {
		tasks, err := namesIn(dir, "task")
		if err != nil {
			return err
		}
		for _, task := range tasks {
			more, err := b.holds(dir, "task/"+task+"/fd")
			if err != nil && !gone(err) {
				return err
			}
			held = append(held, more...)
		}
	}
	if len(held) == 0 {
		return nil
	}
	why, err := me.confined(dir, &p)
	if err != nil {
		return err
	}
	for _, s := range held {
		if why == "" {
			s.held = true
		} else {
			s.confined = "process " + strconv.Itoa(pid) + ", which holds its socket, " + why
		}
	}
	return nil
}

// holds returns which of the sockets are among the descriptors of a directory.
func (b *batch) holds(dir int, name string) ([]*sighting, error) {
	fd, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return nil, err
	}
	var held []*sighting
	var link [64]byte
	for _, name := range names {
		n, err := unix.Readlinkat(fd, name, link[:])
		if errors.Is(err, fs.ErrPermission) {
			return nil, err
		}
		if err != nil {
			continue // closed meanwhile
		}
		if s := b.found[string(link[:n])]; s != nil {
			held = append(held, s)
		}
	}
	return held, nil
}

// unseen says why a socket that no readable process holds cannot be assumed to
// belong to an unreadable process of the user; "": it can.
func unseen(unreadable []int, uid int) (string, error) {
	me, err := readSelf()
	if err != nil {
		return "", err
	}
	// Process 1 exists. If /proc does not show it, /proc hides processes.
	if dir, err := openProcess(1); err != nil {
		return "/proc does not show the processes of others", nil
	} else {
		_ = unix.Close(dir)
	}
	pids, err := processes()
	if err != nil {
		return "", err
	}
	candidates := make(map[int]bool)
	for _, pid := range unreadable {
		candidates[pid] = true
	}
	found := false
	for _, pid := range pids {
		dir, err := openProcess(pid)
		if err != nil {
			continue
		}
		p, err := readProcess(dir)
		// Of the sandboxes of others, those count that can be seen to hide.
		hides := err == nil && me.marked(&p) != "" && (me.own(&p) || candidates[pid] && me.launched(dir, &p))
		_ = unix.Close(dir)
		switch {
		case gone(err):
		case err != nil:
			return "", err
		case hides:
			return "a sandboxed command is running, which may have it", nil
		case candidates[pid] && p.belongsTo(uid) && me.marked(&p) == "":
			found = true
		}
	}
	if !found {
		return "no process that has its socket was found", nil
	}
	return "", nil
}

// own reports whether a process descends from this one.
func (me *self) own(p *process) bool {
	parent := p.parent
	for range maxAncestors {
		if parent == me.pid {
			return true
		}
		if parent <= 1 {
			return false
		}
		dir, err := openProcess(parent)
		if err != nil {
			return true // its parent has just ended: assume the worst
		}
		next, err := readProcess(dir)
		_ = unix.Close(dir)
		if err != nil {
			return true
		}
		parent = next.parent
	}
	return true
}
