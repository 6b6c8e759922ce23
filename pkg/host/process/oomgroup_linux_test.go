package process

import (
	"os"
	"path/filepath"
	"testing"
)

// TestOOMGroup: the kernel kills the server together with commands if that is set for its cgroup or
// for one above it.
func TestOOMGroup(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		outer, inner string // memory.oom.group; empty: the file does not exist
		want         string
	}{
		"set for its own cgroup":          {"", "1\n", "outer/inner"},
		"set for the cgroup above":        {"1\n", "0\n", "outer"},
		"set above, no memory of its own": {"1\n", "", "outer"},
		"not set":                         {"0\n", "0\n", ""},
		"no controller of memory":         {"", "", ""},
	} {
		dir := t.TempDir()
		inner := filepath.Join(dir, "outer/inner")
		if err := os.MkdirAll(inner, 0o700); err != nil {
			t.Fatal(err)
		}
		for path, value := range map[string]string{filepath.Dir(inner): tt.outer, inner: tt.inner} {
			if value == "" {
				continue
			}
			if err := os.WriteFile(filepath.Join(path, "memory.oom.group"), []byte(value), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want := tt.want
		if want != "" {
			want = filepath.Join(dir, want)
		}
		if got := oomGroup(inner); got != want {
			t.Errorf("%s: got %q, want %q", name, got, want)
		}
	}
}
