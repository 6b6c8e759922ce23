package sandbox

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"golang.org/x/sys/unix"
)

// onDisk makes a random host below a directory, and its policy about that.
func onDisk(t *testing.T, top string, host memory, list string) string {
	t.Helper()
	host.root.each(func(n *node) {
		if n == host.root {
			return
		}
		at, err := filepath.Join(top, n.host), error(nil)
		_ = os.MkdirAll(filepath.Dir(at), 0o755)
		switch {
		case n.dir:
			err = os.MkdirAll(at, 0o755)
		case n.link != "":
			err = os.Symlink(strings.Replace(n.link, "/", top+"/", 1), at)
		default:
			err = os.WriteFile(at, []byte(strings.Replace(n.text, "gitdir: /", "gitdir: "+top+"/", 1)), 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	words := strings.Fields(list)
	for i, w := range words {
		if strings.HasPrefix(w, "/") {
			words[i] = top + w
		}
		words[i] = strings.Replace(words[i], "glob:/", "glob:"+top+"/", 1)
	}
	return strings.Join(words, " ")
}

// disturb changes something below a directory, in one of the ways that matter to plans.
func (r random) disturb(top string) string {
	var all []string
	_ = filepath.WalkDir(top, func(name string, _ os.DirEntry, err error) error {
		if err == nil && name != top {
			all = append(all, name)
		}
		return nil
	})
	at := all[r.IntN(len(all))]
	beside := filepath.Join(filepath.Dir(at), names[r.IntN(len(names))])
	inside := filepath.Join(at, names[r.IntN(len(names))])
	switch r.IntN(9) {
	case 0:
		return "remove " + at + report(os.RemoveAll(at))
	case 1:
		return "mkdir " + inside + report(os.Mkdir(inside, 0o755))
	case 2:
		return "mkdir " + beside + report(os.Mkdir(beside, 0o755))
	case 3:
		return "write " + beside + report(os.WriteFile(beside, []byte("gitdir: "+at+"\n"), 0o644))
	case 4:
		return "link " + beside + " to " + at + report(os.Symlink(at, beside))
	case 5:
		return "rename " + at + " to " + beside + report(os.Rename(at, beside))
	case 6:
		return "replace " + at + report(os.RemoveAll(at), os.Mkdir(at, 0o755))
	case 7:
		return "chmod " + at + report(os.Chmod(at, []os.FileMode{0o755, 0o555, 0o755 | os.ModeSticky}[r.IntN(3)]))
	default:
		return "mark " + at + report(markStub(at))
	}
}

// markStub makes a directory look like a placeholder.
func markStub(name string) error {
	then := unix.NsecToTimespec(StubSeconds*1e9 + StubNanoseconds)
	if err := unix.UtimesNanoAt(unix.AT_FDCWD, name, []unix.Timespec{then, then}, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	return os.Chmod(name, stubDirMode)
}

func report(errs ...error) string {
	for _, err := range errs {
		if err != nil {
			return ": " + err.Error()
		}
	}
	return ""
}

// comparable makes a plan one that DeepEqual can compare: a policy has functions, and an empty list is none.
func comparable(plan *Plan) Plan {
	c := *plan
	c.Policy = nil
	c.Mounts, c.Undo, c.Absent = append([]Mount{}, c.Mounts...), append([]UndoName{}, c.Undo...), append([]string{}, c.Absent...)
	return c
}

// usedAgain reports whether a plan for a policy is used again. Another program of the machine may mount something in between.
func usedAgain(t *testing.T, list string, scope permissions.Scope) bool {
	t.Helper()
	const tries = 8
	for range tries {
		if _, kept, err := MakeKept(managed(t, list), scope); err == nil && kept != nil {
			if kept.Again() != nil {
				return true
			}
		}
	}
	return false
}

// Whatever has changed since a plan was made: if it can be used again, it is the one that is made now.
// If nothing has, it can.
func TestKeptPlansAreThoseThatWouldBeMade(t *testing.T) {
	rounds, again, refused := 400, 0, 0
	for seed := range rounds {
		r := random{rand.New(rand.NewPCG(uint64(seed), 1))}
		top, err := filepath.EvalSymlinks(t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { // disturb takes the right to remove what is in a directory
			_ = filepath.WalkDir(top, func(name string, e os.DirEntry, err error) error {
				if err == nil && e.IsDir() {
					err = os.Chmod(name, 0o755)
				}
				return err
			})
		})
		host := r.host(r.IntN(2) == 0)
		list := onDisk(t, top, host, r.policy(host))
		scope := permissions.Scope{Cwd: filepath.Join(top, "w")}
		plan, kept, err := MakeKept(managed(t, list), scope)
		made, failed := Make(managed(t, list), scope, HostView{}, false)
		if (err == nil) != (failed == nil) || err == nil && !reflect.DeepEqual(comparable(plan), comparable(made)) {
			t.Fatalf("seed %d: MakeKept differs from Make: %v, %v", seed, err, failed)
		}
		if kept == nil {
			if err == nil && !strings.Contains(list, "glob:") {
				t.Errorf("seed %d: the plan for %s was not kept", seed, list)
			}
			continue
		}
		done := ""
		for step := range 4 {
			if step > 0 {
				done += r.disturb(top) + "\n"
			}
			now, err := Make(managed(t, list), scope, HostView{}, false)
			old := kept.Again()
			same := old != nil
			switch {
			case same && (err != nil || !reflect.DeepEqual(comparable(old), comparable(now))):
				t.Fatalf("seed %d: %s is used again after\n%s\nof\n%s\nNow it would be %v %s", seed, list, done, dumpPlan(old), err, dumpPlan(now))
			case same:
				again++
			case step == 0 && !usedAgain(t, list, scope):
				t.Errorf("seed %d: %s: the plan is not used again though nothing has changed", seed, list)
			default:
				refused++
			}
			if !same {
				break
			}
		}
	}
	if again < rounds || refused < rounds/8 {
		t.Errorf("used again %d times and not %d times: the test tries too little", again, refused)
	}
}

// That a writable root is a placeholder is nothing that a snapshot has.
func TestAPlanIsNotUsedAgainForAPlaceholder(t *testing.T) {
	top := testTree(t)
	root := filepath.Join(top, "w/b/other")
	_, kept, err := MakeKept(managed(t, "root=read "+root+"=write"), permissions.Scope{Cwd: top})
	if err != nil || kept == nil {
		t.Fatal(kept, err)
	}
	if kept.Again() == nil {
		t.Error("the plan is not used again though nothing has changed")
	}
	if err := markStub(root); err != nil {
		t.Fatal(err)
	}
	if kept.Again() != nil {
		t.Error("the plan is used again, and would be another one")
	}
}
