package permissions

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// TestTheLargestPolicyIsResolvedInTime resolves the largest accepted number of entries in the most
// expensive arrangement: each root is inside the previous one, and all of them have carve-outs.
func TestTheLargestPolicyIsResolvedInTime(t *testing.T) {
	var list strings.Builder
	at := ""
	for i := range maxEntries / 2 {
		at += fmt.Sprintf("/%d", i%10)
		fmt.Fprintf(&list, "%s=write %s/x=read ", at, at)
	}
	start := time.Now()
	p := resolveIn("root=read "+list.String(), tree("/w/"))
	n := 0
	for _, root := range p.WritableRoots() {
		n += len(root.ReadOnly)
	}
	p.ReadableRoots()
	if want := maxEntries / 2 * (maxEntries/2 + 1) / 2; n != want {
		t.Errorf("%d read-only paths, want %d", n, want)
	}
	// The test takes a few tenths of a second; the limit is for slow machines.
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	} else {
		t.Logf("it took %v", took)
	}
}

func TestManyEntriesForManyRootsAreRefused(t *testing.T) {
	request := func(n int) string {
		entry := `,{"path":{"type":"special","value":{"kind":"project_roots"}},"access":"read"}`
		return `{"permissions":` + tag(strings.Repeat(entry, n)[1:], "") + `,"workspaceRoots":["/a"` + strings.Repeat(`,"/a"`, maxRoots-1) + `]}`
	}
	n := maxExpanded / (maxRoots + 1)
	if _, err := DecodeContext([]byte(request(n)), uris); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := DecodeContext([]byte(request(n+1)), uris); err == nil || err.Error() != "more than 4096 file system entries for all workspace roots" {
		t.Errorf("beyond it: %v", err)
	}
}

func TestLinksAreFollowedFortyTimes(t *testing.T) {
	chain := func(n int) memory {
		m := tree("/w/end x")
		for i := range n {
			next := fmt.Sprintf("/w/l%d", i+1)
			if i == n-1 {
				next = "/w/end"
			}
			m[fmt.Sprintf("/w/l%d", i)] = "->" + next
		}
		return m
	}
	if got, err := EffectivePath(chain(MaxLinks), "/w/l0"); got != "/w/end" || err != nil {
		t.Errorf("at the limit: %s, %v", got, err)
	}
	if got, err := EffectivePath(chain(MaxLinks+1), "/w/l0"); got != "/w/l0" || err == nil {
		t.Errorf("beyond it: %s, %v", got, err)
	}
}
