package peercred

import (
	"errors"
	"io/fs"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// sighting is the result of one scan of all processes for one socket.
type sighting struct {
	held     bool   // by a process that is not confined
	confined string // the reason why one of its holders counts as confined, or ""
	err      error
}

// batch is one scan of all processes. It serves all callers that called find before it began.
type batch struct {
	done  chan struct{}
	mu    sync.Mutex           // for the sightings, while processes are inspected
	found map[string]*sighting // by the text of the descriptor's link
}

// scans lets callers share scans. One scan runs at a time, and callers that arrive meanwhile wait
// for the next scan. So many simultaneous connections cost no more than two scans.
type scans struct {
	running sync.Mutex
	kernel  map[int]bool // the kernel threads that the last scan found; running is held
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
		l.kernel = b.run(l.kernel)
		l.running.Unlock()
		close(b.done)
	}
	<-b.done
	return *seen
}

// run scans every process, with a few goroutines, because a client waits for the result. It omits
// kernel threads: they hold no descriptors, and large machines have a thousand of them. It scans
// this program last, and only if no other process holds the socket: this program is not confined,
// and with many clients it has more descriptors than all other processes together.
//
// known are the ids of the kernel threads that the previous scan found. run returns the current
// ids.
func (b *batch) run(known map[int]bool) (kernel map[int]bool) {
	me, err := readSelf()
	if err != nil {
		b.fail(err)
		return nil
	}
	kernel = kernelThreads(known)
	pids, err := processes()
	if err != nil {
		b.fail(err)
		return kernel
	}
	pids = slices.DeleteFunc(pids, func(pid int) bool { return kernel[pid] })
	// If /proc belongs to another PID namespace, the process with this id is not this program.
	if at := slices.Index(pids, me.pid); at >= 0 && isSelf(me.pid) {
		b.scan(&me, slices.Delete(pids, at, at+1))
		if b.wanted() {
			b.scan(&me, []int{me.pid})
		}
	} else {
		b.scan(&me, pids)
	}
	return kernel
}

// scan inspects processes. If it may not read the descriptors of a process, it assumes that the
// process does not hold the socket.
func (b *batch) scan(me *self, pids []int) {
	var next atomic.Int64
	var wg sync.WaitGroup
	inspect := func() {
		buffer := make([]byte, namesSize)
		for i := next.Add(1) - 1; i < int64(len(pids)); i = next.Add(1) - 1 {
			if err := b.inspect(me, pids[i], buffer); err != nil && !errors.Is(err, fs.ErrPermission) && !gone(err) {
				b.fail(err)
			}
		}
	}
	for range min(runtime.GOMAXPROCS(0), maxScanners, len(pids)) - 1 {
		wg.Go(inspect)
	}
	inspect()
	wg.Wait()
}

// fail records an error because of which the scan has no valid result.
func (b *batch) fail(err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range b.found {
		s.err = err
	}
}

// wanted reports whether no holder of a socket has been found yet.
func (b *batch) wanted() bool {
	for _, s := range b.found {
		if s.err == nil && s.confined == "" && !s.held {
			return true
		}
	}
	return false
}

// isSelf reports whether /proc calls this process pid.
func isSelf(pid int) bool {
	name, err := readLink(unix.AT_FDCWD, "/proc/self")
	return err == nil && name == strconv.Itoa(pid)
}

// gone reports whether an error means that a process has ended.
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
	fd, err := openNames(dir, name)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	return readNames(fd, make([]byte, namesSize))
}

// openNames opens a directory to read the names in it.
func openNames(dir int, name string) (fd int, err error) {
	return unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
}

// readNames returns the names in an open directory.
func readNames(fd int, buffer []byte) (names []string, err error) {
	for {
		n, err := unix.ReadDirent(fd, buffer)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil || n <= 0 {
			return names, err
		}
		_, _, names = unix.ParseDirent(buffer[:n], -1, names)
	}
}

// inspect scans the descriptors of a process. A thread can have its own descriptor table, and a
// process whose first thread has ended shows no descriptors. Therefore the tables of all threads
// are read if the process is marked as confined. The files of the process are read through its
// directory fd, so that they belong to one process even if another process gets its id meanwhile.
func (b *batch) inspect(me *self, pid int, buffer []byte) error {
	fd, err := unix.Open("/proc/"+strconv.Itoa(pid)+"/fd", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	held, err := b.holds(fd, buffer)
	if err != nil {
		return err
	}
	var threads unix.Stat_t
	if err := unix.Fstatat(fd, "../task", &threads, 0); err != nil {
		return err
	}
	const one = 3 // links: the directory's name, its dot, and one thread's
	if len(held) == 0 && threads.Nlink <= one {
		return nil
	}
	dir, err := unix.Openat(fd, "..", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	p, err := readProcess(dir)
	if err != nil {
		return err
	}
	if threads.Nlink > one && me.marked(&p) != "" {
		more, err := b.heldByThreads(dir, buffer)
		if err != nil {
			return err
		}
		held = append(held, more...)
	}
	if len(held) == 0 {
		return nil
	}
	why, err := me.confined(dir, &p)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, s := range held {
		if why == "" {
			s.held = true
		} else {
			s.confined = "process " + strconv.Itoa(pid) + ", which holds its socket, " + why
		}
	}
	return nil
}

// heldByThreads returns which of the sockets are among the descriptors of any thread of a process.
func (b *batch) heldByThreads(dir int, buffer []byte) (held []*sighting, err error) {
	tasks, err := namesIn(dir, "task")
	if err != nil {
		return nil, err
	}
	for _, task := range tasks {
		fd, err := openNames(dir, "task/"+task+"/fd")
		if err == nil {
			var more []*sighting
			more, err = b.holds(fd, buffer)
			_ = unix.Close(fd)
			held = append(held, more...)
		}
		if err != nil && !gone(err) {
			return nil, err
		}
	}
	return held, nil
}

// holds returns which of the sockets are among the descriptors in a directory.
func (b *batch) holds(fd int, buffer []byte) ([]*sighting, error) {
	names, err := readNames(fd, buffer)
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
