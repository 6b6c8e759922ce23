package faultproxy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// Direction is a direction of a connection.
type Direction int

// The directions.
const (
	Up   Direction = iota // from the client to the server
	Down                  // from the server to the client
)

// String returns "up" or "down".
func (d Direction) String() string {
	if d == Up {
		return "up"
	}
	return "down"
}

// Kind is a kind of Fault.
type Kind int

// The kinds of faults. All except Stall end the connection.
const (
	// Close closes both sides in order.
	Close Kind = iota
	// Reset resets both sides.
	Reset
	// ResetClient resets the client's side. The server's side remains open, but silent, for the
	// fault's time and is then reset.
	ResetClient
	// ResetServer is the same with the sides exchanged.
	ResetServer
	// HalfClose ends the fault's direction normally and leaves the other one
	// open for the fault's time; then both sides are closed.
	HalfClose
	// Stall delays the fault's direction by the fault's time.
	Stall

	kinds // how many there are
)

var kindNames = [kinds]string{"close", "reset", "reset-client", "reset-server", "half-close", "stall"}

// String returns the kind's name in plans that are printed.
func (k Kind) String() string { return kindNames[k] }

// Fault happens when a direction of a connection has carried a number of bytes.
type Fault struct {
	Kind  Kind
	Dir   Direction
	After int64         // bytes, exactly; 0: before the first one
	For   time.Duration // see Kind
}

// String returns the fault as in "stall@down:4096/20ms".
func (f Fault) String() string {
	s := fmt.Sprintf("%v@%v:%d", f.Kind, f.Dir, f.After)
	if f.For > 0 {
		s += "/" + f.For.String()
	}
	return s
}

// Conn describes the faults of one connection.
type Conn struct {
	// Refuse resets the connection as soon as it is made. The other fields then have no effect.
	Refuse bool
	// Pieces is the most bytes that are written at a time. Data is split into pieces of random
	// sizes up to this. 0: data is not split.
	Pieces int
	// Delay is how long each read, of at most 32 KiB, is delayed before it is forwarded.
	Delay time.Duration
	// Faults are in the order of After within each direction.
	Faults []Fault
}

// String returns the connection as in "refuse" or
// "pieces 512 reset@up:99".
func (c Conn) String() string {
	if c.Refuse {
		return "refuse"
	}
	var parts []string
	if c.Pieces > 0 {
		parts = append(parts, fmt.Sprintf("pieces %d", c.Pieces))
	}
	if c.Delay > 0 {
		parts = append(parts, fmt.Sprintf("delay %v", c.Delay))
	}
	for _, f := range c.Faults {
		parts = append(parts, f.String())
	}
	if parts == nil {
		return "pass"
	}
	return strings.Join(parts, " ")
}

// Plan describes the faults of the connections, in the order in which they are
// made. Connections after the last one of the plan have no faults.
type Plan struct {
	Seed  uint64 // of the sizes of pieces
	Conns []Conn
	// OnFault, if not nil, is called after each fault with the number of its
	// connection, counted from 0. It is called by several goroutines and must
	// not block.
	OnFault func(conn int, f Fault)
}

// String returns the plan on one line. A random plan can be reproduced from its
// seed and its Shape.
func (p Plan) String() string {
	parts := make([]string, len(p.Conns))
	for i, c := range p.Conns {
		parts[i] = c.String()
	}
	return fmt.Sprintf("seed %d: %s", p.Seed, strings.Join(parts, ", "))
}

// Shape bounds random plans.
type Shape struct {
	// Cuts is the most connections that end badly; at least one does.
	Cuts int
	// Refusals is the most connections that are refused after each.
	Refusals int
	// First is how many bytes the first connection carries in each direction before its first
	// fault.
	First int64
	// Up and Down are the most bytes that a direction carries until it is cut. All orders of
	// magnitude up to that are equally likely, so that cuts happen in handshakes as well as in the
	// middle of a stream.
	Up, Down int64
	// Pause bounds every Fault.For.
	Pause time.Duration
}

// Random returns the plan of a seed.
func Random(seed uint64, s Shape) Plan {
	rng := rand.New(rand.NewPCG(seed, uint64(s.Cuts)))
	p := Plan{Seed: seed}
	for i := range 1 + rng.IntN(s.Cuts) {
		least := int64(0)
		if i == 0 {
			least = s.First
		}
		p.Conns = append(p.Conns, randomConn(rng, s, least))
		for range rng.IntN(s.Refusals + 1) {
			p.Conns = append(p.Conns, Conn{Refuse: true})
		}
	}
	return p
}

// randomConn makes a connection that ends badly. It may also have a stall, pieces or a delay.
func randomConn(rng *rand.Rand, s Shape, least int64) Conn {
	var c Conn
	end := Fault{Kind: Kind(rng.IntN(int(Stall))), Dir: Direction(rng.IntN(2))}
	most := s.Up
	if end.Dir == Down {
		most = s.Down
	}
	end.After = least + logUniform(rng, most)
	switch end.Kind {
	case ResetClient, ResetServer, HalfClose:
		end.For = pause(rng, s.Pause)
	}
	if rng.IntN(3) == 0 {
		stall := Fault{Kind: Stall, Dir: end.Dir, For: pause(rng, s.Pause)}
		stall.After = rng.Int64N(end.After + 1)
		c.Faults = append(c.Faults, stall)
	}
	c.Faults = append(c.Faults, end)
	if rng.IntN(3) == 0 {
		c.Pieces = int(end.After/mostPieces) + int(logUniform(rng, readSize))
	}
	if rng.IntN(4) == 0 {
		c.Delay = time.Duration(rng.IntN(1000)) * time.Microsecond
	}
	return c
}

// logUniform returns a number from 1 to most whose logarithm is evenly
// distributed.
func logUniform(rng *rand.Rand, most int64) int64 {
	return int64(math.Exp(rng.Float64() * math.Log(float64(most))))
}

// pause returns a time up to most, in whole milliseconds.
func pause(rng *rand.Rand, most time.Duration) time.Duration {
	return time.Duration(rng.Int64N(most.Milliseconds()+1)) * time.Millisecond
}
