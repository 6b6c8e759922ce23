package rendezvous

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"codex.internal/pkg/relay/frame"
)

// crowd is an environment with an executor and two tokens for its harnesses.
// The holder of one token must not be able to keep the other out.
type crowd struct {
	*service
	x               *peer
	honest, hostile string // tokens
}

func newCrowd(t *testing.T, start starter, opts Options, prepare ...func(s *Server)) *crowd {
	t.Helper()
	s := start(t, opts)
	for _, f := range prepare {
		f(s.Server)
		f(s.far.Server)
	}
	c := &crowd{service: s, x: s.executor("env")}
	c.honest, _ = newToken(t, s.tokens, RoleHarness, "*")
	c.hostile, _ = newToken(t, s.tokens, RoleHarness, "*")
	return c
}

// forgiveNothing makes failures of the hostile token count for the whole test.
func (c *crowd) forgiveNothing() {
	c.environments.find("env").share(TokenID(c.hostile)).failures.SetLimit(0)
}

// served checks that the holder of the honest token is served.
func (c *crowd) served() {
	c.t.Helper()
	h := c.harnessOf(c.honest, "env")
	h.open(c.x, "honest")
	h.send(data("honest", 0, "up"))
	c.x.want("honest", frame.Data, "up")
	c.x.send(data("honest", 0, "down"))
	h.want("honest", frame.Data, "down")
	_ = h.ws.Close()
	c.x.want("honest", frame.Reset, resetHarnessGone)
}

func TestShareOfSockets(t *testing.T) { everywhere(t, testShareOfSockets) }

func testShareOfSockets(t *testing.T, start starter) {
	c := newCrowd(t, start, Options{}, func(s *Server) { s.environments.quota.sockets = 8 })
	url := c.connectAs(c.hostile, "env").URL
	for range 4 {
		c.dial(url)
	}
	if got := refused(t, url); got != "429 too_many_sockets" {
		t.Errorf("the fifth: %s", got)
	}
	c.served()
	// Several tokens that work together still leave some resources free.
	other, _ := newToken(t, c.tokens, RoleHarness, "*")
	for range 2 {
		c.harnessOf(other, "env")
	}
	if got := refused(t, c.connectAs(other, "env").URL); got != "429 too_many_sockets" {
		t.Errorf("the third of another: %s", got)
	}
	c.served()
}

// TestShareOfStreams: one connection claims as many streams as it can without a handshake.
func TestShareOfStreams(t *testing.T) { everywhere(t, testShareOfStreams) }

func testShareOfStreams(t *testing.T, start starter) {
	c := newCrowd(t, start, Options{}, func(s *Server) { s.resumeClaim = time.Hour })
	h := c.harnessOf(c.hostile, "env")
	for i := range environmentStreams / 2 {
		h.send(frame.Frame{StreamID: fmt.Sprint(i), Kind: frame.Resume})
		c.x.want(fmt.Sprint(i), frame.Resume, "")
	}
	for range 8 {
		h.send(frame.Frame{StreamID: "more", Kind: frame.Resume})
		h.want("more", frame.Reset, resetStreamLimit)
	}
	c.served()
}

// TestShareOfHandshakes: one token begins handshakes that the executor does not answer.
func TestShareOfHandshakes(t *testing.T) { everywhere(t, testShareOfHandshakes) }

func testShareOfHandshakes(t *testing.T, start starter) {
	c := newCrowd(t, start, Options{}, func(s *Server) { s.resumeClaim, s.handshakeClaim = time.Hour, time.Hour })
	c.forgiveNothing()
	var hostile []*peer
	for i := range environmentOpening / 2 {
		h := c.harnessOf(c.hostile, "env")
		hostile = append(hostile, h)
		// An earlier resume makes no difference.
		if i%2 == 0 {
			h.send(frame.Frame{StreamID: fmt.Sprint(i), Kind: frame.Resume})
			c.x.want(fmt.Sprint(i), frame.Resume, "")
		}
		h.send(handshake(fmt.Sprint(i), "x"))
		c.x.want(fmt.Sprint(i), frame.Handshake, "x")
	}
	refused := func() {
		t.Helper()
		hostile[0].send(handshake("more", "x"))
		hostile[0].want("more", frame.Reset, resetStreamLimit)
	}
	refused()
	c.served()
	// A handshake that its harness has given up counts as a failure if the executor refuses it.
	for i, h := range hostile {
		if i%2 == 0 {
			h.send(reset(fmt.Sprint(i), "given up"))
			c.x.want(fmt.Sprint(i), frame.Reset, "given up")
		} else {
			_ = h.ws.Close()
			c.x.want(fmt.Sprint(i), frame.Reset, resetHarnessGone)
		}
	}
	hostile[0].open(c.x, "not a failure yet")
	for i := range hostile[:shareFailureBurst] {
		c.x.send(reset(fmt.Sprint(i), "no"))
	}
	eventually(t, func() bool { return c.environments.find("env").share(TokenID(c.hostile)).failures.Tokens() < 1 })
	refused()
	c.served()
}

// TestClaimsEnd: the executor does not answer the frame that claims a stream. The stream becomes
// free after a while; for a resume that time is short.
func TestClaimsEnd(t *testing.T) { everywhere(t, testClaimsEnd) }

func testClaimsEnd(t *testing.T, start starter) {
	const short = 10 * time.Millisecond
	t.Run("a resume", func(t *testing.T) {
		c := newCrowd(t, start, Options{}, func(s *Server) { s.resumeClaim = short })
		h := c.harnessOf(c.hostile, "env")
		h.open(c.x, "answered")
		h.send(frame.Frame{StreamID: "claimed", Kind: frame.Resume})
		c.x.want("claimed", frame.Resume, "")
		eventually(t, func() bool { return c.totals().streams == 1 })
		// The executor does not know the stream, so it needs no reset there.
		c.x.send(data("answered", 0, "x"))
		h.want("answered", frame.Data, "x")
		c.served()
	})
	t.Run("a handshake", func(t *testing.T) {
		c := newCrowd(t, start, Options{}, func(s *Server) { s.handshakeClaim = short })
		h := c.harnessOf(c.hostile, "env")
		h.send(handshake("claimed", "x"))
		c.x.want("claimed", frame.Handshake, "x")
		c.x.want("claimed", frame.Reset, resetHarnessGone)
		h.want("claimed", frame.Reset, resetUnanswered)
	})
}

// TestFailuresAreChargedToTheirSource: one token sends handshakes that the executor refuses. Its
// connections are closed, and then it cannot begin any more handshakes.
func TestFailuresAreChargedToTheirSource(t *testing.T) { everywhere(t, testFailuresAreCharged) }

func testFailuresAreCharged(t *testing.T, start starter) {
	c := newCrowd(t, start, Options{})
	c.forgiveNothing()
	for i := range shareFailureBurst / harnessFailures {
		h := c.harnessOf(c.hostile, "env")
		for j := range harnessFailures {
			id := fmt.Sprint(i, "-", j)
			h.send(handshake(id, "forged"))
			c.x.want(id, frame.Handshake, "forged")
			c.x.send(reset(id, "no"))
			if j < harnessFailures-1 {
				h.want(id, frame.Reset, "no")
			}
		}
		h.wantClosed(websocket.ClosePolicyViolation)
	}
	h := c.harnessOf(c.hostile, "env")
	h.send(handshake("more", "forged"))
	h.want("more", frame.Reset, resetStreamLimit)
	c.served()
}

// TestSlowReader: a harness does not read the data of its stream. While another
// harness waits for the executor's output, the slow one is disconnected long
// before the usual time limit for reading nothing.
func TestSlowReader(t *testing.T) { everywhere(t, testSlowReader) }

func testSlowReader(t *testing.T, start starter) {
	c := newCrowd(t, start, Options{WriteTimeout: time.Hour})
	stalled, good := c.harnessOf(c.hostile, "env"), c.harnessOf(c.honest, "env")
	stalled.open(c.x, "stalled")
	good.open(c.x, "good")
	c.environments.find("env").share(TokenID(c.hostile)).stalls.SetBurst(300)
	const frames = 800 // 48 MB: more than all buffers hold, and than a token's share
	payload := strings.Repeat("p", 60<<10)
	var sending sync.WaitGroup
	sending.Go(func() {
		for i := range frames {
			c.x.send(data("stalled", i, payload))
		}
		c.x.send(data("good", 0, "x"))
	})
	good.want("good", frame.Data, "x")
	sending.Wait()
	c.x.want("stalled", frame.Reset, resetHarnessGone)
	c.served()
}
