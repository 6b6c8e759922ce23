package rendezvous

import (
	"sync"
	"time"
)

// Nonces remembers which were spent. Its methods may be called from any
// goroutine.
type Nonces struct {
	mu    sync.Mutex
	spent map[string]time.Time // until when it is remembered
}

// NewNonces returns an empty set.
func NewNonces() *Nonces { return &Nonces{spent: make(map[string]time.Time)} }

// Spend returns true once for each nonce until its expiry, and false when there
// are too many to remember.
func (n *Nonces) Spend(nonce string, until time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, twice := n.spent[nonce]; twice || len(n.spent) >= maxSpent {
		return false
	}
	n.spent[nonce] = until
	return true
}

// Sweep removes the expired ones.
func (n *Nonces) Sweep(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for nonce, until := range n.spent {
		if !now.Before(until) {
			delete(n.spent, nonce)
		}
	}
}
