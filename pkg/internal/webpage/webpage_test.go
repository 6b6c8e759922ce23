package webpage

import "testing"

func TestByteSize(t *testing.T) {
	for n, want := range map[uint64]string{
		0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 1536: "1.5 KiB",
		// One byte before it would read 1024.0, and that byte.
		1048524: "1023.9 KiB", 1048525: "1.0 MiB", 1 << 20: "1.0 MiB", 5 << 30: "5.0 GiB", 1 << 40: "1.0 TiB", 1<<64 - 1: "16777216.0 TiB",
	} {
		if got := ByteSize(n); got != want {
			t.Errorf("%d: %q, want %q", n, got, want)
		}
	}
}
