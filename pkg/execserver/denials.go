package execserver

import (
	"sync"

	"codex.internal/pkg/execproto"
	"codex.internal/pkg/sandbox/egress"
)

// denials counts what a process was refused. Its methods may be called from any
// goroutine.
type denials struct {
	mu    sync.Mutex
	found []execproto.Denial // in the order of their first occurrence
}

// add counts a decision, if it is a refusal. Denials beyond maxDenials are counted
// together, without a host.
func (x *denials) add(r egress.Report) {
	if r.Verdict == egress.Pass {
		return
	}
	d := execproto.Denial{
		Kind: execproto.DenialNetwork, Host: r.Host, Port: r.Port, Protocol: string(r.Protocol), Reason: r.Reason,
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.count(d) {
		return
	}
	if len(x.found) >= maxDenials {
		if d = (execproto.Denial{Kind: execproto.DenialNetwork}); x.count(d) {
			return
		}
	}
	d.Count = 1
	x.found = append(x.found, d)
}

// count counts a denial that has occurred before. The caller holds the lock.
func (x *denials) count(d execproto.Denial) bool {
	for i := range x.found {
		if d.Count = x.found[i].Count; d == x.found[i] {
			x.found[i].Count++
			return true
		}
	}
	return false
}

// list returns the denials so far.
func (x *denials) list() []execproto.Denial {
	x.mu.Lock()
	defer x.mu.Unlock()
	return append([]execproto.Denial(nil), x.found...)
}
