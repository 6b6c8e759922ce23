package execserver

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// keys are those of the policies whose sandboxes are made ahead, the last used first.
func (p *launcherPool) keys() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var keys []string
	for _, a := range p.ahead {
		keys = append(keys, a.key)
	}
	return strings.Join(keys, " ")
}

// TestPoliciesAhead: sandboxes are made ahead for the last few policies that were used in the
// last minute.
func TestPoliciesAhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &launcherPool{}
		use := func(keys ...string) {
			for _, key := range keys {
				p.takeAhead(&aheadPolicy{key: key})
			}
		}
		use("a", "b", "a", "c")
		if got := p.keys(); got != "c a b" {
			t.Errorf("after four uses: %s", got)
		}
		var many []string
		for i := range maxAheadPolicies {
			many = append(many, fmt.Sprint(i))
		}
		use(many...)
		slices.Reverse(many)
		if got := p.keys(); got != strings.Join(many, " ") {
			t.Errorf("after more: %s", got)
		}
		time.Sleep(aheadTime / 2)
		use("z")
		time.Sleep(aheadTime/2 + time.Second)
		if got := p.keys(); got != "z" {
			t.Errorf("after a minute: %s", got)
		}
		time.Sleep(aheadTime)
		if got := p.keys(); got != "" {
			t.Errorf("after two minutes: %s", got)
		}
		use("y")
		p.close()
		if got := p.keys(); got != "" || p.takeAhead(&aheadPolicy{key: "x"}) != nil {
			t.Errorf("after the end: %s", got)
		}
	})
}
