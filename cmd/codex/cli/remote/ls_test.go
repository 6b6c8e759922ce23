package remote

import "testing"

// TestShortSizes: sizes are those of ls -h of GNU.
func TestShortSizes(t *testing.T) {
	for size, want := range map[uint64]string{
		0: "0", 1: "1", 1023: "1023", 1024: "1.0K", 1025: "1.1K", 1536: "1.5K", 10137: "9.9K", 10138: "10K", 10240: "10K", 10241: "11K",
		1023 * 1024: "1023K", 1023*1024 + 1: "1.0M", 1 << 20: "1.0M", 5 << 30: "5.0G", 1 << 40: "1.0T", 1<<64 - 1: "16E",
	} {
		if got := shortSize(size); got != want {
			t.Errorf("%d: got %s, want %s", size, got, want)
		}
	}
}
