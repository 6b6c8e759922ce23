package watch

import (
	"fmt"
	"runtime/metrics"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/leakcheck"
	"golang.org/x/sys/unix"
)

// pipes returns the ends of n pipes.
func pipes(t *testing.T, n int) (read, written []int) {
	t.Helper()
	for range n {
		var p [2]int
		if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _, _ = unix.Close(p[0]), unix.Close(p[1]) })
		read, written = append(read, p[0]), append(written, p[1])
	}
	return read, written
}

// inCalls returns how many goroutines are in system calls.
func inCalls() uint64 {
	s := []metrics.Sample{{Name: "/sched/goroutines/not-in-go:goroutines"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

// TestOneThread: waiting calls share one thread. Each call ends when its own descriptor has an
// event.
func TestOneThread(t *testing.T) {
	check := leakcheck.Goroutines(t)
	const calls = 40
	read, written := pipes(t, calls)
	before := inCalls()
	var p poller
	var wg sync.WaitGroup
	ended := make(chan int, calls)
	for i, fd := range read {
		wg.Go(func() {
			fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
			if err := p.await(fds, -1); err != nil || fds[0].Revents != unix.POLLIN {
				t.Errorf("call %d: %v, events %x", i, err, fds[0].Revents)
			}
			ended <- i
		})
	}
	testutil.Eventually(t.Context(), t, "the calls", func() (string, bool) {
		p.mu.Lock()
		defer p.mu.Unlock()
		return fmt.Sprint(len(p.calls)), len(p.calls) == calls
	})
	testutil.Eventually(t.Context(), t, "one goroutine in a system call", func() (string, bool) {
		n := inCalls() - before
		return fmt.Sprint(n), n == 1
	})
	for i, fd := range written {
		if _, err := unix.Write(fd, []byte{0}); err != nil {
			t.Fatal(err)
		}
		if got := <-ended; got != i {
			t.Errorf("call %d has ended, want %d", got, i)
		}
	}
	wg.Wait()
	check()
}

// TestAwaitTimeout: a call ends when its timeout has elapsed, not earlier, and other calls continue
// to wait.
func TestAwaitTimeout(t *testing.T) {
	read, written := pipes(t, 2)
	var p poller
	var wg sync.WaitGroup
	wg.Go(func() {
		fds := []unix.PollFd{{Fd: int32(read[0]), Events: unix.POLLIN}}
		if err := p.await(fds, -1); err != nil || fds[0].Revents == 0 {
			t.Errorf("the other call: %v, %v", err, fds)
		}
	})
	for _, timeout := range []time.Duration{0, time.Microsecond, 20 * time.Millisecond} {
		began := time.Now()
		fds := []unix.PollFd{{Fd: int32(read[1]), Events: unix.POLLIN}}
		if err := p.await(fds, timeout); err != nil || fds[0].Revents != 0 || time.Since(began) < timeout {
			t.Errorf("%v: %v, %v after %v", timeout, err, fds, time.Since(began))
		}
	}
	if _, err := unix.Write(written[0], []byte{0}); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
}

// TestAwaitInTurns: the polling goroutine ends and starts again as calls end and begin.
func TestAwaitInTurns(t *testing.T) {
	const goroutines = 8
	rounds := testutil.Rounds(200, 1000, 5000)
	var p poller
	var wg sync.WaitGroup
	for range goroutines {
		read, written := pipes(t, 1)
		wg.Go(func() {
			for range rounds {
				fds := []unix.PollFd{{Fd: int32(read[0]), Events: unix.POLLIN}}
				if _, err := unix.Write(written[0], []byte{0}); err != nil {
					t.Error(err)
				}
				if err := p.await(fds, time.Minute); err != nil || fds[0].Revents == 0 {
					t.Errorf("got error %v, fds %v; want no error, fds[0].Revents other than 0", err, fds)
				}
				if _, err := unix.Read(read[0], make([]byte, 1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}
