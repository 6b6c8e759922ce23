package launcher

import (
	"bytes"
	"os"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// A message from a Unix socket for datagrams can go to any socket that a path
// leads to, and only then does its address count. So as long as a sandbox has made
// no such socket, the kernel goes on with the calls that send, which costs less, and
// a stream loses nothing that only its own program can send.
//
// When the first is about to be made, this ends for good. A call that goes on then
// has to have its socket, because another thread could put the new one in its place.
// The kernel takes the socket first, without waiting for anything. So a thread that
// sleeps where a signal would wake it, is stopped or has ended since is past that:
// until then it runs, is ready to run, or waits for a lock. One that still runs is
// past it after trustedTime of the processor.

const (
	// maxTrusted bounds the threads that are remembered. The launcher makes the calls
	// of more.
	maxTrusted = 1024
	// trustedTime is a thousand times what the kernel needs to take the socket, and
	// some interrupts.
	trustedTime = 20 * time.Millisecond
	// endTime bounds how long the first socket waits. It is refused then, and can be
	// tried again. It looks again after endStep.
	endTime = 2 * time.Second
	endStep = time.Millisecond
)

// trusted are the threads with calls that the kernel has gone on with.
type trusted struct {
	mu      sync.Mutex
	ended   bool                  // no call goes on any more
	threads map[int]time.Duration // by number: the processor time of each at some time since; 0: not known
}

// forget notes that a thread has made another call.
func (t *trusted) forget(tid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.threads, tid)
}

// pass has the kernel go on with a call, and reports whether it does.
func (t *trusted) pass(listener int, n *notification) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.ended && len(t.threads) >= maxTrusted {
		t.prune()
	}
	if t.ended || len(t.threads) >= maxTrusted {
		return false
	}
	if t.threads == nil {
		t.threads = make(map[int]time.Duration)
	}
	t.threads[int(n.pid)] = 0
	_ = ioctl(listener, unix.SECCOMP_IOCTL_NOTIF_SEND, &answer{id: n.id, flags: unix.SECCOMP_USER_NOTIF_FLAG_CONTINUE})
	return true
}

// prune forgets the threads whose calls have their sockets. It is called with mu held.
func (t *trusted) prune() {
	for tid, before := range t.threads {
		if used := processorTime(tid); before == 0 {
			t.threads[tid] = used
		} else if used-before >= trustedTime {
			delete(t.threads, tid)
		}
		if isPast(tid) {
			delete(t.threads, tid)
		}
	}
}

// end has no call go on any more, and returns when all that did have their sockets;
// EPERM: one did not get that far in time.
func (t *trusted) end() syscall.Errno {
	for deadline := time.Now().Add(endTime); ; {
		t.mu.Lock()
		t.ended = true
		t.prune()
		left := len(t.threads)
		t.mu.Unlock()
		if left == 0 {
			return 0
		}
		if time.Now().After(deadline) {
			return unix.EPERM
		}
		_, _ = unix.Poll(nil, int(endStep.Milliseconds())) // nothing tells of this
	}
}

// isPast reports whether a thread has ended, is stopped, or sleeps where a signal
// would wake it.
func isPast(tid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/stat")
	if err != nil {
		return os.IsNotExist(err) || errnoOf(err) == unix.ESRCH
	}
	// Behind the name of the program, which may have anything in it.
	at := bytes.LastIndexByte(stat, ')')
	return at >= 0 && len(stat) > at+2 && bytes.IndexByte([]byte("STtZX"), stat[at+2]) >= 0
}

// processorTime returns how long a thread has run; 0: that is not known.
func processorTime(tid int) time.Duration {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(tid) + "/schedstat")
	if err != nil {
		return 0
	}
	first, _, _ := bytes.Cut(text, []byte(" "))
	used, _ := strconv.ParseInt(string(first), 10, 64)
	return time.Duration(used)
}
