//go:build linux

package sandbox

import (
	"errors"
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
	if err := CheckBinds(text, true); err != nil {
		t.Errorf("it is absent: %v", err)
	}
	if err := os.Mkdir(dir+"/gone", 0o755); err != nil {
		t.Fatal(err)
	}
	if err := CheckBinds(text, true); err == nil {
		t.Error("it is there, and nobody noticed")
	}
	if grants := ParseWall(text); len(grants) > 0 {
		t.Errorf("it is granted: %v", grants)
	}
}

// A mask that bwrap has mounted elsewhere is noticed, and so is a bind of what
// the plan has not seen.
func TestBindsTellWhatMustBeMasked(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(dir+"/secret", 0o000); err != nil {
		t.Fatal(err)
	}
	info, err := HostView{}.Lstat(dir + "/secret")
	if err != nil {
		t.Fatal(err)
	}
	id := FileID{info.Dev, info.Ino}
	for _, id := range []FileID{id, {}} {
		text, err := (&Plan{Mounts: []Mount{{Kind: EmptyDir, Target: dir + "/secret", ID: id}}}).Binds()
		if err != nil {
			t.Fatal(err)
		}
		if err := CheckBinds(text, true); err == nil {
			t.Errorf("%v: nothing is mounted on it, and nobody noticed", id)
		}
	}
	if _, err := (&Plan{Mounts: []Mount{{Kind: BindReadOnly, Source: dir, Target: dir, ID: id}}}).Binds(); !errors.Is(err, ErrAppeared) {
		t.Errorf("the source is another directory: %v", err)
	}
	if _, err := takeStub(dir+"/new", true, id); !errors.Is(err, ErrAppeared) {
		t.Errorf("the placeholder would be in another directory: %v", err)
	}
}
