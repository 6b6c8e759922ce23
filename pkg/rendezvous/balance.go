package rendezvous

import (
	"maps"
	"time"
)

// balancer evens out the executors over the nodes of a service. Scenario: the nodes are restarted one
// after the other, and the executors of each reconnect to the others. In the end one node has most of
// the executors, and the node that was restarted last has few.
//
// A node that has more executors than the mean asks some of them to reconnect, one after the other.
// DNS or the load balancer then chooses their node. If that is this node again, they are not asked
// again for a while, so nodes without a load balancer do not disconnect their executors repeatedly.
type balancer struct {
	srv   *Server
	peers PeerBus
	spare int // see balanceSpare

	nodes int                  // when full was set
	full  time.Time            // since when this node has had too many executors; zero: it does not
	asked map[string]time.Time // the executors that were asked to reconnect, by registration
}

// routineBalance evens out the executors until the service ends.
func (s *Server) routineBalance(peers PeerBus) {
	b := newBalancer(s, peers)
	ticker := time.NewTicker(balanceInterval)
	defer ticker.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-ticker.C:
			b.step(s.now())
		}
	}
}

func newBalancer(s *Server, peers PeerBus) *balancer {
	return &balancer{srv: s, peers: peers, spare: balanceSpare, asked: make(map[string]time.Time)}
}

// step asks at most one executor to reconnect, if this node has had too many for balanceDelay.
func (b *balancer) step(now time.Time) {
	own, all, nodes := b.srv.staying(), b.srv.connected(), len(b.peers.Peers())+1
	switch {
	case !b.tooMany(len(own), all, nodes):
		b.full = time.Time{}
		return
	case b.full.IsZero() || nodes != b.nodes:
		b.full, b.nodes = now, nodes
	}
	if now.Sub(b.full) < balanceDelay {
		return
	}
	maps.DeleteFunc(b.asked, func(_ string, at time.Time) bool { return now.Sub(at) >= balanceAgain })
	for registration, x := range own {
		if _, before := b.asked[registration]; !before && x.askToLeave() {
			b.asked[registration] = now
			b.srv.metrics.moved.Inc()
			x.log.Info("executor asked to reconnect", "reason", closeUneven, "executors", len(own), "executors_of_all_nodes", all, "nodes", nodes)
			return
		}
	}
}

// tooMany reports whether a node with own of all executors has more than its share.
func (b *balancer) tooMany(own, all, nodes int) bool {
	mean := float64(all) / float64(nodes)
	surplus := float64(own) - mean
	return nodes > 1 && surplus > float64(b.spare) && surplus > mean*balanceSurplus/100
}

// staying returns the executors that are connected to this node and were not asked to reconnect, by
// registration.
func (s *Server) staying() map[string]*executor {
	list := make(map[string]*executor)
	for _, a := range s.environments.all() {
		a.mu.Lock()
		executors := maps.Clone(a.executors)
		a.mu.Unlock() // executors have locks of their own, which must be taken first
		for registration, x := range executors {
			if x.stays() {
				list[registration] = x
			}
		}
	}
	return list
}

// connected returns how many executors are connected to all nodes.
func (s *Server) connected() (n int) {
	for _, reg := range s.state.List() {
		if reg.Connected {
			n++
		}
	}
	return n
}

func (x *executor) stays() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return !x.leaving
}

// askToLeave disconnects the executor at its next check, and reports whether that is possible.
func (x *executor) askToLeave() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leaving = x.movable()
	return x.leaving
}

// mustLeave reports whether the executor was asked to reconnect. If that has become impossible, it
// withdraws the request.
func (x *executor) mustLeave() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.leaving = x.leaving && x.movable()
	return x.leaving
}

// movable reports whether the executor loses nothing if it reconnects: the ends of all its streams can
// resume them. The caller holds mu.
func (x *executor) movable() bool {
	for _, s := range x.streams {
		if !s.harnessAcks || !s.executorAcks {
			return false
		}
	}
	return true
}
