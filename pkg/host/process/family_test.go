package process

import (
	"fmt"
	"os"
	"slices"
	"testing"

	"codex.internal/pkg/testutil"
)

// TestFamilies: the result contains a process's descendants, even after the process itself has
// ended. Descendants that it has left behind are found by their session.
func TestFamilies(t *testing.T) {
	eachVariant(t, func(t *testing.T, g *Group) {
		p, _ := start(t, g, shell("(sleep 1000 &) & sleep 1000 & while :; do sleep 1; done"))
		q, _ := start(t, g, shell("sleep 1000 & exit 0"))
		testutil.Eventually(t.Context(), t, "the exit of the second one", func() (string, bool) {
			return fmt.Sprintf("%+v", q.State()), q.State().Exited
		})
		testutil.Eventually(t.Context(), t, "all of both families", func() (string, bool) {
			found, truncated := Families([]*Process{p, q}, 100)
			left := slices.DeleteFunc(slices.Clone(found[1]), func(pid int) bool { return pid == q.Pid() })
			return fmt.Sprint(found, truncated), !truncated && len(found[0]) >= 3 && slices.Contains(found[0], p.Pid()) && len(left) == 1 &&
				slices.IsSorted(found[0]) && !slices.Contains(found[0], os.Getpid())
		})
		if found, truncated := Families([]*Process{p, q}, 2); !truncated || len(found[0]) != 2 || len(found[1]) != 0 {
			t.Errorf("got found %v, truncated %v; want truncated true, len(found[0]) 2, len(found[1]) 0", found, truncated)
		}
		for _, one := range []*Process{p, q} {
			one.Terminate()
			await(t, "close", one.Done())
		}
		testutil.Eventually(t.Context(), t, "the end of both families", func() (string, bool) {
			found, _ := Families([]*Process{p, q}, 100)
			return fmt.Sprint(found), len(found[0])+len(found[1]) == 0
		})
	})
}
