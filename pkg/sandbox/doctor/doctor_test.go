//go:build linux

package doctor

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestMain makes the test the children's program too. It is no launcher.
func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == "codex-linux-sandbox":
		os.Exit(1)
	case len(os.Args) > 1 && os.Args[1] == Arg:
		os.Exit(Main(os.Args[2:]))
	}
	// With the race detector each child would wait a second at its end.
	_ = os.Setenv("GORACE", "atexit_sleep_ms=0")
	os.Exit(m.Run())
}

func TestExamineWithoutALauncher(t *testing.T) {
	temp := t.TempDir()
	t.Setenv("TMPDIR", temp)
	r := Examine(context.Background())
	if r.WorkspaceWrite || r.ReadOnly || len(r.Backends) != 0 || r.Auto.Backend != "" {
		t.Errorf("something is enforced by nobody: %+v", r)
	}
	if !slices.ContainsFunc(r.Notes, func(n string) bool { return strings.Contains(n, "launcher") }) {
		t.Errorf("nothing is said of the launcher: %q", r.Notes)
	}
	for _, name := range []string{UserNamespace, Seccomp, SecondWall, Landlock, Bubblewrap, Terminal, Cgroup, Inotify} {
		c := r.Check(name)
		switch {
		case c == nil:
			t.Errorf("%s was not tried", name)
		case c.Detail == "" || (c.Status == OK) != (c.Matters == "") || len(c.Causes) != len(c.Fixes):
			t.Errorf("%+v", c)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestChildrenThatFailAreNotTakenForAnswers(t *testing.T) {
	e := &examination{ctx: context.Background(), facts: &facts{}}
	for name, args := range map[string][]string{
		"an unknown probe": {"/proc/self/exe", "codex", Arg, "nonsense"},
		"no answer":        {"/bin/true", "true"},
		"another answer":   {"/bin/echo", "echo", "hello"},
		"no program":       {"/nonexistent", "x"},
	} {
		if o := e.run(args[0], args[1:], nil, nil, nil); !o.failed() || o.String() == "" {
			t.Errorf("%s: %+v", name, o)
		}
	}
	ended, end := context.WithCancel(context.Background())
	end()
	e.ctx = ended
	if o := e.run("/proc/self/exe", []string{"codex", Arg, "wait"}, nil, nil, nil); !o.failed() {
		t.Errorf("ended: %+v", o)
	}
}
