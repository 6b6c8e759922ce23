package jsonwire

import (
	"strings"
	"testing"
)

type names struct{ List []string }

func (n *names) Fields(c *Codec) { c.Texts("list", Need, &n.List) }

// TestListsAreBounded: a list that is longer than the protocol permits is refused before all of
// it is in memory.
func TestListsAreBounded(t *testing.T) {
	for _, tt := range []struct {
		elements int
		fits     bool
	}{{1, true}, {MaxElements, true}, {MaxElements + 1, false}} {
		text := []byte(`{"list":[""` + strings.Repeat(`,""`, tt.elements-1) + `]}`)
		var n names
		r := NewReader(text)
		err := r.Struct("names", &n)
		if (err == nil) != tt.fits || tt.fits && len(n.List) != tt.elements {
			t.Errorf("%d elements: got %d, error %v; want that they fit: %v", tt.elements, len(n.List), err, tt.fits)
		}
	}
}
