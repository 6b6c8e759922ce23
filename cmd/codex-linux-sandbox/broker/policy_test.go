package broker

import (
	"path"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/plan"
)

// example is the policy of a workspace with a nested root, a protected directory that is missing, and a file that may be written.
func example() *Policy {
	return PolicyOf(&plan.Plan{
		Mounts: []plan.Mount{
			{Kind: plan.BindWritable, Target: "/ws"},
			{Kind: plan.BindWritable, Target: "/ws/above", Pin: true},
			{Kind: plan.BindReadOnly, Target: "/ws/.git"},
			{Kind: plan.EmptyDir, Target: "/ws/.codex", Placeholder: true},
			{Kind: plan.BindReadOnly, Target: "/ws/above/secret"},
			{Kind: plan.BindWritable, Target: "/ws/.git/objects"},
			{Kind: plan.BindWritable, Target: "/home/file", File: true},
		},
		Undo: []plan.UndoName{{Path: "/ws/.agents"}},
	})
}

func TestPolicyChangesOnlyWhatIsWritable(t *testing.T) {
	for at, want := range map[string]bool{
		"/ws": true, "/ws/a": true, "/ws/a/.git/config": true, "/ws/.gitignore": true, "/ws/above": true, "/ws/above/x": true,
		"/ws/.git": false, "/ws/.git/config": false, "/ws/.GIT/config": false, "/ws/.gIt": false, "/ws/.codex": false, "/ws/.Codex/x": false,
		"/ws/.agents": false, "/ws/.AGENTS/x": false, "/ws/.agent\u017f": false, "/ws/.\u212Aodex": true,
		"/ws/above/secret": false, "/ws/Above/Secret/x": false,
		"/ws/.git/objects": true, "/ws/.git/objects/aa": true, "/ws/.git/objectsx": false, "/ws/.GIT/objects/aa": false,
		"/ws/.git (deleted)": false, "/ws/.git/config (deleted)": false, "/ws/a (deleted)": true,
		"/home/file": true, "/home": false, "/home/filex": false, "/wsx": false, "/": false, "/etc/passwd": false,
		"pipe:[1]": false, "": false, "ws": false,
	} {
		if got := example().Change(at); got != want {
			t.Errorf("Change(%q): got %v, want %v", at, got, want)
		}
	}
}

// TestOnlyKnownNamesAreNameless: the attributes of a file in no directory may be changed if its kind is known.
func TestOnlyKnownNamesAreNameless(t *testing.T) {
	for at, want := range map[string]bool{
		"pipe:[1]": true, "socket:[1]": true, "anon_inode:[eventfd]": true,
		"net:[1]": false, "": false, "ws": false, "(unreachable)/ws/.git": false, "/ws/a": false, "/memfd:x": false, "/memfd:x (deleted)": false,
	} {
		if got := isNameless(-1, at); got != want {
			t.Errorf("isNameless(%q): got %v, want %v", at, got, want)
		}
	}
}

func TestPolicyKeepsNamesOfProtectedPathsAndOfDirectoriesAbove(t *testing.T) {
	for at, want := range map[string]bool{
		"/ws/a": true, "/ws/a/.git": true, "/ws/above/x": true, "/ws/.git/objects/aa": true,
		"/ws": false, "/ws/.git": false, "/ws/.GIT": false, "/ws/.codex": false, "/ws/.CODEX": false, "/ws/.agents": false,
		"/ws/above": false, "/ws/ABOVE": false, "/ws/above/secret": false, "/ws/above/secret/x": false,
		"/ws/.git/x": false, "/ws/.git/objects": false, "/home/file": false, "/home/x": false, "/x": false, "/etc/x": false,
	} {
		if got := example().Name(path.Dir(at), path.Base(at)); got != want {
			t.Errorf("Name(%q): got %v, want %v", at, got, want)
		}
	}
}

// FuzzPolicy checks what rule 4 of README.md needs, for any path.
func FuzzPolicy(f *testing.F) {
	for _, at := range []string{"/ws/a", "/ws/.git/config", "/ws/.GIT", "/ws/above", "/ws/x (deleted)", "/ws/.\u017f"} {
		f.Add(at)
	}
	policy := example()
	f.Fuzz(func(t *testing.T, at string) {
		if !strings.HasPrefix(at, "/") || path.Clean(at) != at || strings.ContainsRune(at, 0) {
			t.Skip("not a path that the kernel returns")
		}
		inRoot := permissions.Within(at, "/ws") || at == "/home/file"
		if policy.Change(at) && !inRoot {
			t.Errorf("Change(%q): got true, want false outside of the roots", at)
		}
		if name := path.Base(at); at != "/" && policy.Name(path.Dir(at), name) {
			for _, fixed := range []string{"/ws", "/ws/.git", "/ws/.codex", "/ws/.agents", "/ws/above", "/ws/above/secret", "/home/file"} {
				if strings.EqualFold(at, fixed) || permissions.Within(fixed, at) {
					t.Errorf("Name(%q): got true, want false: %s is there or below", at, fixed)
				}
			}
			if !policy.Change(at) {
				t.Errorf("Name(%q): got true, but Change is false", at)
			}
		}
	})
}

func TestSplitKeepsSlashesOfTheLastName(t *testing.T) {
	for name, want := range map[string][2]string{
		"a": {".", "a"}, "a/": {".", "a/"}, "a//": {".", "a/"}, "/a": {"/", "a"}, "a/b": {"a/", "b"}, "a//b/": {"a//", "b/"},
		"/": {"/", ""}, "//": {"//", ""}, "": {".", ""}, "..": {".", ".."}, "a/.": {"a/", "."}, "a/../": {"a/", "../"},
	} {
		if dir, last := split(name); [2]string{dir, last} != want {
			t.Errorf("split(%q): got %q, want %q", name, [2]string{dir, last}, want)
		}
	}
}

// TestEachStoppedCallHasAnAnswer: a call that the filter stops and the table lacks fails.
func TestEachStoppedCallHasAnAnswer(t *testing.T) {
	stopped := make(map[uint32]bool)
	for _, number := range plan.BrokerCalls() {
		stopped[number] = true
		if calls[number] == nil {
			t.Errorf("call %d is stopped, and has no answer", number)
		}
	}
	for number := range calls {
		if !stopped[number] {
			t.Errorf("call %d has an answer, and is not stopped", number)
		}
	}
}

func TestPolicyKnowsGrantedRepositories(t *testing.T) {
	policy := PolicyOf(&plan.Plan{Repositories: []string{"/ws/.git"}})
	for at, want := range map[string]bool{"/ws/.git": true, "/ws/.git/refs/heads": true, "/ws": false, "/ws/.github": false, "/": false} {
		if got := policy.Repository(at); got != want {
			t.Errorf("Repository(%q): got %v, want %v", at, got, want)
		}
	}
}
