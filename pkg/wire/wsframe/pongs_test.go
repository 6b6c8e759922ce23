package wsframe

import (
	"fmt"
	"testing"
)

// TestPingsAreAnsweredInOrder up to as many as may wait; of more, the last.
func TestPingsAreAnsweredInOrder(t *testing.T) {
	const room = 4
	for _, extra := range []int{0, 1, 5} {
		pongs := make(Pongs, room)
		for i := range room + extra {
			pongs.Add(fmt.Sprint(i))
		}
		for i := range room {
			if got := <-pongs; got != fmt.Sprint(extra+i) {
				t.Errorf("%d too many: answer %d is to ping %s", extra, i, got)
			}
		}
	}
}
