package process

import (
	"os"
	"strings"
	"testing"
)

// TestOverlappingForks: the value is raised while any fork continues, however they
// overlap, and restored after the last one.
func TestOverlappingForks(t *testing.T) {
	value := func() string {
		text, err := os.ReadFile("/proc/self/oom_score_adj")
		if err != nil {
			t.Fatal(err)
		}
		return strings.TrimSpace(string(text))
	}
	own := value()
	var o oomScore
	for range 2 {
		o.raise()
		raised := string(o.set)
		if o.fd < 0 {
			t.Fatal("the value cannot be raised here")
		}
		o.raise()
		o.restore()
		if v := value(); v != raised {
			t.Errorf("%s while a fork goes on, want %s", v, raised)
		}
		o.restore()
		if v := value(); v != own {
			t.Errorf("%s after the last fork, want %s", v, own)
		}
	}
	o.raise()
	o.close()
	if v := value(); v != own {
		t.Errorf("%s after the end, want %s", v, own)
	}
	o.restore()
}
