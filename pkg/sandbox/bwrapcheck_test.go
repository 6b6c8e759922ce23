//go:build linux

package sandbox

import (
	"os"
	"testing"
)

func TestBindsTellWhatMustBeAbsent(t *testing.T) {
	dir := t.TempDir()
	plan := &Plan{Mounts: []Mount{{Kind: BindReadOnly, Source: dir, Target: dir}}, Absent: []string{dir + "/gone"}}
	text, err := plan.Binds()
	if err != nil {
		t.Fatal(err)
	}
	if err := CheckBinds(text); err != nil {
		t.Errorf("it is absent: %v", err)
	}
	if err := os.Mkdir(dir+"/gone", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CheckBinds(text); err == nil {
		t.Error("it is there, and nobody noticed")
	}
	if grants := ParseWall(text); len(grants) > 0 {
		t.Errorf("it is granted: %v", grants)
	}
}
