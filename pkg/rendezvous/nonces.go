package rendezvous

import (
	"sync"
	"time"
)

// Nonces remembers which nonces were used. Its methods may be called from any goroutine.
type Nonces struct {
	mu    sync.Mutex
	spent map[string]time.Time // until when it is remembered
}

// NewNonces returns an empty set.
func NewNonces() *Nonces { return &Nonces{spent: make(map[string]time.Time)} }

// Spend returns true once for each nonce until its expiry. It returns false if there are too many
// nonces to remember.
func (n *Nonces) Spend(nonce string, until time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, twice := n.spent[nonce]; twice || len(n.spent) >= maxSpent {
		return false
	}
	n.spent[nonce] = until
	return true
}

// Sweep removes the expired nonces.
func (n *Nonces) Sweep(now time.Time) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for nonce, until := range n.spent {
		if !now.Before(until) {
			delete(n.spent, nonce)
		}
	}
}
