package faultproxy

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"

	"codex.internal/pkg/testutil/leakcheck"
)

// patience is how long tests wait for an event that must come.
const patience = 20 * time.Second

// peers are both ends of one connection through a proxy.
type peers struct {
	p              *Proxy
	client, server *net.TCPConn
}

// join connects through a proxy with a plan. Everything ends when the test ends. Then no goroutine
// may be left.
func join(t *testing.T, plan Plan) peers {
	t.Helper()
	noneLeft := leakcheck.Goroutines(t)
	target, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	p, err := New(t.Context(), target.Addr().String(), plan)
	must(t, err)
	client, err := net.Dial("tcp", p.Addr())
	must(t, err)
	must(t, target.SetDeadline(time.Now().Add(patience)))
	server, err := target.AcceptTCP()
	must(t, err)
	j := peers{p, client.(*net.TCPConn), server}
	for _, c := range []*net.TCPConn{j.client, j.server} {
		must(t, c.SetDeadline(time.Now().Add(patience)))
	}
	t.Cleanup(func() {
		p.Close()
		_ = client.Close()
		_ = server.Close()
		_ = target.Close()
		noneLeft()
	})
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// noise returns n bytes that are the same for the same n.
func noise(n int) []byte {
	b := make([]byte, n)
	_, _ = rand.NewChaCha8([32]byte{byte(n)}).Read(b) // it never fails
	return b
}

func one(c Conn) Plan { return Plan{Conns: []Conn{c}} }

func TestBytesArriveAsTheyWereSent(t *testing.T) {
	stall := Fault{Kind: Stall, Dir: Up, After: 1000, For: time.Millisecond}
	late := Fault{Kind: Stall, Dir: Up, After: 1000, For: time.Millisecond}
	for name, c := range map[string]Conn{
		"undisturbed":         {},
		"in pieces":           {Pieces: 100},
		"byte by byte":        {Pieces: 1},
		"with delay":          {Delay: time.Millisecond},
		"stalled":             {Faults: []Fault{stall}},
		"stalled twice there": {Faults: []Fault{stall, late}},
	} {
		t.Run(name, func(t *testing.T) {
			j := join(t, one(c))
			up, down := noise(50_000), noise(70_000)
			var wg sync.WaitGroup
			send := func(c *net.TCPConn, data []byte) {
				_, err := c.Write(data)
				if err := errors.Join(err, c.CloseWrite()); err != nil {
					t.Error(err)
				}
			}
			wg.Go(func() { send(j.client, up) })
			wg.Go(func() { send(j.server, down) })
			gotUp, err := io.ReadAll(j.server)
			must(t, err)
			gotDown, err := io.ReadAll(j.client)
			must(t, err)
			wg.Wait()
			if !bytes.Equal(gotUp, up) || !bytes.Equal(gotDown, down) {
				t.Errorf("%d of %d bytes up, %d of %d down, or others", len(gotUp), len(up), len(gotDown), len(down))
			}
			want := Stats{Conns: 1, Stalls: len(c.Faults), Up: int64(len(up)), Down: int64(len(down))}
			if got := j.p.Stats(); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// long is longer than any test runs.
const long = time.Hour

// ending is the way in which a side notices its end.
type ending string

const (
	inOrder ending = "in order"
	byReset ending = "by a reset"
	open    ending = "open"
	// either is for a side that is closed while data is in flight to or from it. The kernel decides
	// how it ends.
	either ending = "closed or reset"
)

// read reads to the end and returns the number of bytes.
func (want ending) read(t *testing.T, name string, c *net.TCPConn) int64 {
	t.Helper()
	if want == open {
		// No data arrives, however long the reader waits.
		must(t, c.SetReadDeadline(time.Now().Add(20*time.Millisecond)))
	}
	n, err := io.Copy(io.Discard, c)
	var netErr net.Error
	got := ending("with an error")
	switch {
	case err == nil:
		got = inOrder
	case errors.Is(err, syscall.ECONNRESET):
		got = byReset
	case errors.As(err, &netErr) && netErr.Timeout():
		got = open
	}
	if got != want && (want != either || got == open) {
		t.Errorf("%s: %s, not %s: %v", name, got, want, err)
	}
	return n
}

func TestFaults(t *testing.T) {
	for _, tt := range []struct {
		fault          Fault
		client, server ending
	}{
		{Fault{Kind: Close, Dir: Down, After: 1000}, inOrder, either},
		{Fault{Kind: Close, Dir: Up, After: 1000}, either, inOrder},
		{Fault{Kind: Reset, Dir: Down, After: 1000}, byReset, byReset},
		{Fault{Kind: Reset, Dir: Up, After: 1000}, byReset, byReset},
		{Fault{Kind: ResetClient, Dir: Down, After: 1000, For: long}, byReset, open},
		{Fault{Kind: ResetClient, Dir: Up, After: 1000, For: long}, byReset, open},
		{Fault{Kind: ResetClient, Dir: Up, After: 1000}, byReset, byReset},
		{Fault{Kind: ResetServer, Dir: Down, After: 1000, For: long}, open, byReset},
		{Fault{Kind: ResetServer, Dir: Up, After: 1000, For: time.Millisecond}, byReset, byReset},
		{Fault{Kind: HalfClose, Dir: Down, After: 1000, For: long}, inOrder, open},
		{Fault{Kind: HalfClose, Dir: Up, After: 1000, For: long}, open, inOrder},
		{Fault{Kind: HalfClose, Dir: Up, After: 1000, For: time.Millisecond}, either, inOrder},
	} {
		t.Run(tt.fault.String(), func(t *testing.T) {
			told := make(chan Fault, 2)
			plan := one(Conn{Faults: []Fault{tt.fault}})
			plan.OnFault = func(_ int, f Fault) { told <- f }
			j := join(t, plan)
			sender := j.client
			if tt.fault.Dir == Down {
				sender = j.server
			}
			// Data after the fault does not arrive.
			_, _ = sender.Write(noise(2000))
			if f := <-told; f != tt.fault {
				t.Errorf("told of %v", f)
			}
			up, down := tt.server.read(t, "server", j.server), tt.client.read(t, "client", j.client)
			if up+down > tt.fault.After {
				t.Errorf("%d bytes arrived up, %d down", up, down)
			}
			stats := j.p.Stats()
			if passed := stats.Up + stats.Down; passed != tt.fault.After || stats.Faults != 1 {
				t.Errorf("got %+v; want passed %v, stats.Faults 1", stats, tt.fault.After)
			}
		})
	}
}

func TestTheOtherDirectionOutlivesAHalfClose(t *testing.T) {
	j := join(t, one(Conn{Faults: []Fault{{Kind: HalfClose, Dir: Down, After: 0, For: long}}}))
	if _, err := j.client.Read(make([]byte, 1)); err != io.EOF {
		t.Fatal(err)
	}
	_, err := j.client.Write([]byte("still there"))
	must(t, err)
	must(t, j.client.CloseWrite())
	if got, err := io.ReadAll(j.server); err != nil || string(got) != "still there" {
		t.Errorf(`got %q, error %v; want no error, "still there"`, got, err)
	}
}

// dialRefused makes a connection that is reset, during the dial or after it.
func dialRefused(t *testing.T, p *Proxy) {
	t.Helper()
	c, err := net.Dial("tcp", p.Addr())
	if errors.Is(err, syscall.ECONNRESET) {
		return
	}
	must(t, err)
	defer c.Close()
	must(t, c.SetDeadline(time.Now().Add(patience)))
	byReset.read(t, "a refused connection", c.(*net.TCPConn))
}

func TestConnectionsGoByThePlan(t *testing.T) {
	j := join(t, Plan{Conns: []Conn{{Faults: []Fault{{Kind: Reset, Dir: Up, After: 3}}}, {Refuse: true}, {Refuse: true}}})
	_, err := j.client.Write([]byte("more"))
	must(t, err)
	byReset.read(t, "the first connection", j.client)
	for range 2 {
		dialRefused(t, j.p)
	}
	after, err := net.Dial("tcp", j.p.Addr())
	must(t, err)
	defer after.Close()
	_, err = after.Write([]byte("more"))
	must(t, err)
	for s := j.p.Stats(); s.Up < 7; s = j.p.Stats() {
		runtime.Gosched()
	}
	if s := j.p.Stats(); s.Conns != 2 || s.Refused != 2 || s.Up != 7 {
		t.Errorf("got %+v; want s.Conns 2, s.Refused 2, s.Up 7", s)
	}
}

func TestCut(t *testing.T) {
	j := join(t, Plan{})
	// Once data has come through, the proxy knows the connection.
	_, err := j.client.Write([]byte("x"))
	must(t, err)
	_, err = io.ReadFull(j.server, make([]byte, 1))
	must(t, err)
	j.p.Cut()
	byReset.read(t, "client", j.client)
	byReset.read(t, "server", j.server)
}

func TestATargetThatIsNotThere(t *testing.T) {
	noneLeft := leakcheck.Goroutines(t)
	gone, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	_ = gone.Close()
	p, err := New(t.Context(), gone.Addr().String(), Plan{})
	must(t, err)
	dialRefused(t, p)
	p.Close()
	if s := p.Stats(); s != (Stats{Refused: 1}) {
		t.Errorf("got %+v, want Stats{Refused: 1}", s)
	}
	noneLeft()
}

func TestTheContextEndsEverything(t *testing.T) {
	noneLeft := leakcheck.Goroutines(t)
	target, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)})
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	p, err := New(ctx, target.Addr().String(), one(Conn{Faults: []Fault{{Kind: Stall, Dir: Up, For: long}}}))
	must(t, err)
	client, err := net.Dial("tcp", p.Addr())
	must(t, err)
	must(t, client.SetDeadline(time.Now().Add(patience)))
	for p.Stats().Stalls == 0 {
		runtime.Gosched()
	}
	cancel()
	byReset.read(t, "client", client.(*net.TCPConn))
	_ = client.Close()
	_ = target.Close()
	p.Close()
	noneLeft()
}
