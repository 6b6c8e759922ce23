package process

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

func TestWindowSizes(t *testing.T) {
	for size, want := range map[uint64]int{
		0: 0, 1: MinWindow, MinWindow: MinWindow, MinWindow + 1: MinWindow + 1,
		MaxWindow: MaxWindow, MaxWindow + 1: MaxWindow, 1<<64 - 1: MaxWindow,
	} {
		if got := clampWindow(size); got != want {
			t.Errorf("a window of %d becomes %d, want %d", size, got, want)
		}
	}
	if MaxWindow+MaxChunk > MaxRetained || maxUnacked+2 > maxChunks {
		t.Error("unacknowledged output may be forgotten")
	}
}

// TestWindowCountsEvents: the process has more events than are retained, but their bytes fit into
// the window.
func TestWindowCountsEvents(t *testing.T) {
	w := window{size: MinWindow}
	for seq := uint64(1); seq <= maxUnacked; seq++ {
		if !w.room() {
			t.Fatalf("full with %d events", seq-1)
		}
		w.count(1)
		w.recordEvent(seq, 1)
	}
	if w.room() {
		t.Error("there is room for one more")
	}
	if !w.ack(1) || !w.room() {
		t.Error("no room after an acknowledgement")
	}
}

func TestWindowAcknowledgements(t *testing.T) {
	w := window{size: MinWindow}
	for seq := uint64(1); seq <= 4; seq++ {
		w.count(MinWindow / 4)
		w.recordEvent(seq, MinWindow/4)
	}
	for _, tt := range []struct {
		name string
		ack  uint64
		left int
		wake bool
	}{
		{"nothing new", 0, MinWindow, false},
		{"two of them", 2, MinWindow / 2, true},
		{"the same again", 2, MinWindow / 2, false},
		{"a lower one", 1, MinWindow / 2, false},
		{"all", 4, 0, false},
		{"one to come", 5, 0, false},
	} {
		w.room() // waits until there is an event
		if wake := w.ack(tt.ack); wake != tt.wake || w.unacked != tt.left {
			t.Errorf("%s: wake %v, %d bytes left; want %v, %d", tt.name, wake, w.unacked, tt.wake, tt.left)
		}
	}
	w.count(MinWindow)
	if w.room() {
		t.Error("room before the bytes have a number")
	}
	if !w.recordEvent(5, MinWindow) || !w.room() {
		t.Error("an event that was acknowledged before it came fills the window")
	}
}

// windowed is a Sink that checks that no more output is in flight than a window
// allows, and that can wait for events.
type windowed struct {
	*recorder
	size   int
	events chan unacked
	mu     sync.Mutex
	acked  uint64
	onWay  []unacked
}

func startWindowed(t testing.TB, g *Group, spec Spec) (*Process, *windowed) {
	t.Helper()
	w := &windowed{recorder: newRecorder(t), size: clampWindow(spec.Window), events: make(chan unacked, 1<<20)}
	p, err := g.Start(context.Background(), spec, w)
	if err != nil {
		t.Fatal(err)
	}
	p.OpenGate()
	return p, w
}

func (w *windowed) Output(seq uint64, s Stream, chunk []byte) {
	w.recorder.Output(seq, s, chunk)
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := 0
	w.onWay = append(w.onWay, unacked{seq, len(chunk)})
	for i := range w.onWay {
		if w.onWay[i].seq > w.acked {
			sum += w.onWay[i].bytes
		}
	}
	if sum >= w.size+MaxChunk {
		w.t.Errorf("%d bytes are not acknowledged, the window is %d", sum, w.size)
	}
	w.events <- unacked{seq, len(chunk)}
}

// ack acknowledges events. It records them first, so that the check is never too strict.
func (w *windowed) ack(p *Process, seq uint64) {
	w.noted(seq)
	p.Ack(seq)
}

func (w *windowed) noted(seq uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.acked = max(w.acked, seq)
	for len(w.onWay) > 0 && w.onWay[0].seq <= w.acked {
		w.onWay = w.onWay[1:]
	}
}

// awaitHeld waits until a stream of the process has found the window full while more output is in
// the pipe.
func (w *windowed) awaitHeld(p *Process) {
	w.t.Helper()
	testutil.Eventually(w.t.Context(), w.t, "a process that is held back", func() (string, bool) {
		p.win.mu.Lock()
		held := p.win.refused
		p.win.mu.Unlock()
		return fmt.Sprintf("window refused: %v", held), held && slices.ContainsFunc(p.streams, readable)
	})
}

// readable reports whether a stream contains output.
func readable(s stream) bool {
	raw, err := s.file.SyscallConn()
	if err != nil {
		return false
	}
	ready := false
	_ = raw.Control(func(fd uintptr) {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, 0)
		ready = err == nil && n > 0 && fds[0].Revents&unix.POLLIN != 0
	})
	return ready
}

// TestWindowIsNeverExceeded: processes write on both streams while acknowledgements arrive late,
// out of order and repeatedly.
func TestWindowIsNeverExceeded(t *testing.T) {
	want, err := exec.Command("seq", "60000").Output()
	if err != nil {
		t.Fatal(err)
	}
	eachVariant(t, func(t *testing.T, g *Group) {
		for seed := range uint64(6) {
			rng := rand.New(rand.NewPCG(seed, 1))
			spec := shell("seq 60000 & seq 60000 >&2; wait; exit 3")
			spec.Window = MinWindow + rng.Uint64N(MinWindow)
			spec.TTY = seed%3 == 2
			if spec.TTY {
				spec = Spec{Argv: []string{"seq", "60000"}, Dir: "/", Env: spec.Env, TTY: true, Window: spec.Window}
			}
			p, w := startWindowed(t, g, spec)
			w.acknowledge(p, rng)
			if spec.TTY {
				if got := strings.ReplaceAll(w.text(PTY), "\r", ""); got != string(want) {
					t.Errorf("seed %d: the terminal gave %d bytes, want %d", seed, len(got), len(want))
				}
				continue
			}
			if w.text(Stdout) != string(want) || w.text(Stderr) != string(want) || w.code != 3 {
				t.Errorf("seed %d: %d and %d bytes, want %d; exit code %d", seed, len(w.text(Stdout)), len(w.text(Stderr)), len(want), w.code)
			}
		}
	})
}

// acknowledge acknowledges at random until the process has closed.
func (w *windowed) acknowledge(p *Process, rng *rand.Rand) {
	w.t.Helper()
	deadline := time.After(20 * time.Second)
	for newest := uint64(0); ; {
		select {
		case e := <-w.events:
			newest = e.seq
			if rng.IntN(3) == 0 {
				w.ack(p, rng.Uint64N(newest+1))
			}
			continue
		default:
		}
		w.ack(p, newest) // no more may come before
		select {
		case e := <-w.events:
			newest = e.seq
		case <-p.Done():
			return
		case <-deadline:
			w.t.Fatal("the process did not close")
		}
	}
}

// TestExitIsToldWhileHeldBack: a process ends while its pipe contains more output than the window
// allows. The exit must still be reported.
func TestExitIsToldWhileHeldBack(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell(fmt.Sprintf("head -c %d /dev/zero; head -c 1000 /dev/zero; echo err >&2; exit 3", MinWindow))
		spec.Window = 1
		p, w := startWindowed(t, g, spec)
		await(t, "exit", w.exit)
		if got := len(w.text(Stdout)); w.code != 3 || got > MinWindow+MaxChunk {
			t.Errorf("exit code %d after %d bytes", w.code, got)
		}
		w.ack(p, 1<<53-1)
		await(t, "close", p.Done())
		if got := w.text(Stdout); len(got) != MinWindow+1000 || w.text(Stderr) != "err\n" {
			t.Errorf("%d bytes and %q", len(got), w.text(Stderr))
		}
	})
}

func TestLargestAckLiftsTheWindow(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for _, tty := range []bool{false, true} {
			spec := shell("head -c 1000000 /dev/zero")
			spec.Window, spec.TTY = MinWindow, tty
			p, w := startWindowed(t, g, spec)
			w.awaitHeld(p)
			w.ack(p, 1<<53-1)
			await(t, "close", p.Done())
			if got := len(w.text(Stdout) + w.text(PTY)); got != 1_000_000 {
				t.Errorf("tty %v: %d bytes", tty, got)
			}
		}
	})
}

// TestTerminateWhileHeldBack terminates a process whose pipe is full. The output in the pipe still
// waits for acknowledgements, and is then delivered.
func TestTerminateWhileHeldBack(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		for name, spec := range map[string]Spec{
			"pipe":                     shell("exec yes"),
			"terminal":                 {Argv: []string{"yes"}, Dir: "/", Env: []string{"PATH=/usr/bin:/bin"}, TTY: true},
			"pipe that somebody holds": shell("(setsid sleep 5 &); exec yes"),
		} {
			spec.Window = MinWindow
			p, w := startWindowed(t, g, spec)
			w.awaitHeld(p)
			if !p.Terminate() {
				t.Errorf("%s: it was not running", name)
			}
			await(t, name+": exit", w.exit)
			if w.code != 137 {
				t.Errorf("%s: exit code %d", name, w.code)
			}
			before := len(w.text(Stdout) + w.text(PTY))
			testutil.Eventually(t.Context(), t, name+": streams that are cut off", func() (string, bool) { return "none", p.cut.Load() })
			if p.State().Closed {
				t.Errorf("%s: it closed before its output was read", name)
			}
			w.acknowledge(p, rand.New(rand.NewPCG(1, 1)))
			got := w.text(Stdout) + w.text(PTY)
			if strings.Trim(got, "y\r\n") != "" || len(got) == before {
				t.Errorf("%s: %d bytes, %d before the acknowledgements", name, len(got), before)
			}
		}
	})
}

// TestExitIsToldAfterTheCut: the streams of a process are cut off before it ends, because a killed
// process takes longer than cutTime to end on a busy machine. Its exit must not wait for
// acknowledgements.
func TestExitIsToldAfterTheCut(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("exec yes")
		spec.Window = MinWindow
		p, w := startWindowed(t, g, spec)
		w.awaitHeld(p)
		p.win.mu.Lock()
		p.win.refused = false
		p.win.mu.Unlock()
		p.cutOff()
		w.awaitHeld(p) // the stream has noticed the cut, and waits for space again
		p.killTree()
		await(t, "exit", w.exit)
		if p.State().Closed {
			t.Error("it closed before its output was read")
		}
		w.acknowledge(p, rand.New(rand.NewPCG(1, 1)))
	})
}

// TestGroupCloseEndsWhatIsHeldBack closes a group while the receivers of its
// processes' output do not acknowledge.
func TestGroupCloseEndsWhatIsHeldBack(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		var all []*Process
		for _, script := range []string{"yes", "yes >&2", "yes & yes >&2", "head -c 200000 /dev/zero"} {
			for _, tty := range []bool{false, true} {
				spec := shell(script)
				spec.Window, spec.TTY = MinWindow, tty
				p, w := startWindowed(t, g, spec)
				w.awaitHeld(p)
				w.noted(1<<53 - 1) // the window ends with the group
				all = append(all, p)
			}
		}
		all[0].Terminate()
		g.Close()
		for _, p := range all {
			if !p.State().Closed {
				t.Error("a process has not closed")
			}
		}
	})
}

// TestWindowLeavesStdinAlone writes to a process whose output waits for the window. Its input and
// the end of its input are still delivered.
func TestWindowLeavesStdinAlone(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		spec := shell("head -c 200000 /dev/zero; exec cat")
		spec.Window, spec.PipeStdin = MinWindow, true
		p, w := startWindowed(t, g, spec)
		w.awaitHeld(p)
		written, closed := make(chan WriteResult, 1), make(chan error, 1)
		p.Write([]byte("last"), nil, func(r WriteResult) { written <- r })
		p.CloseStdin(func(err error) { closed <- err })
		if r, err := <-written, <-closed; r.Status != WriteAccepted || err != nil {
			t.Errorf("write: %+v; close: %v", r, err)
		}
		w.ack(p, 1<<53-1)
		await(t, "close", p.Done())
		if got := w.text(Stdout); !strings.HasSuffix(got, "last") || bytes.Count([]byte(got), []byte{0}) != 200000 {
			t.Errorf("%d bytes", len(got))
		}
	})
}
