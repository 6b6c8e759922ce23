package watch

import (
	"errors"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// waits combines the await calls of all watches of this program into one call of poll(2), so that
// they share one thread. A server may have hundreds of watches, and must not need as many threads.
// The runtime's poller cannot be used: /proc/self/mountinfo reports a change to only one poll, and
// through an epoll descriptor inside another one the change gets lost.
var waits poller

// poller has a goroutine as long as there are calls.
type poller struct {
	mu    sync.Mutex
	calls map[*call]bool
	wake  int // an eventfd that ends the poll, while there are calls
}

// call is one call of await.
type call struct {
	fds   []unix.PollFd
	until time.Time // zero: for ever
	done  chan error
}

// await is poll(2). It waits until one of the descriptors has an event, and sets Revents, or until
// timeout has elapsed. If timeout is negative, it waits forever. The descriptors must stay open
// meanwhile.
func (p *poller) await(fds []unix.PollFd, timeout time.Duration) error {
	c := &call{fds: fds, done: make(chan error, 1)}
	if timeout >= 0 {
		c.until = time.Now().Add(timeout)
	}
	if err := p.add(c); err != nil {
		return err
	}
	return <-c.done
}

// add adds a call.
func (p *poller) add(c *call) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.calls) > 0 {
		p.calls[c] = true
		_, err := unix.Write(p.wake, []byte{1, 0, 0, 0, 0, 0, 0, 0})
		return err
	}
	wake, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
	if err != nil {
		return err
	}
	p.wake, p.calls = wake, map[*call]bool{c: true}
	go p.routinePoll()
	return nil
}

// routinePoll polls until there are no calls. Each call waits for it.
func (p *poller) routinePoll() {
	for more := true; more; {
		fds, calls, timeout := p.gather()
		_, err := unix.Poll(fds, timeout)
		more = p.finish(fds[1:], calls, err)
	}
}

// gather returns the descriptors of the current calls, after the descriptor that interrupts the
// poll; the calls; and the shortest of their timeouts in milliseconds.
func (p *poller) gather() (fds []unix.PollFd, calls []*call, timeout int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	var woken [8]byte
	_, _ = unix.Read(p.wake, woken[:])
	fds, timeout = []unix.PollFd{{Fd: int32(p.wake), Events: unix.POLLIN}}, -1
	for c := range p.calls {
		fds, calls = append(fds, c.fds...), append(calls, c)
		if !c.until.IsZero() {
			left := max(0, int(time.Until(c.until).Milliseconds())+1)
			if timeout < 0 || left < timeout {
				timeout = left
			}
		}
	}
	return fds, calls, timeout
}

// finish ends the calls whose descriptors have events or whose timeout has elapsed. It reports
// whether other calls remain.
func (p *poller) finish(fds []unix.PollFd, calls []*call, err error) (more bool) {
	if errors.Is(err, unix.EINTR) {
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	for _, c := range calls {
		happened := err != nil
		for i := range c.fds {
			c.fds[i].Revents = fds[i].Revents
			happened = happened || fds[i].Revents != 0
		}
		fds = fds[len(c.fds):]
		if happened || !c.until.IsZero() && !now.Before(c.until) {
			delete(p.calls, c)
			c.done <- err
		}
	}
	if len(p.calls) == 0 {
		_ = unix.Close(p.wake)
	}
	return len(p.calls) > 0
}
