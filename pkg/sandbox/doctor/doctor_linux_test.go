package doctor

import (
	"context"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/runner"
	"golang.org/x/sys/unix"
)

// TestMain lets the test binary also act as the program of the doctor's children. The test binary
// is not a launcher.
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
	for _, name := range []string{Bubblewrap, Terminal, Cgroup, Inotify} {
		c := r.Check(name)
		switch {
		case c == nil:
			t.Errorf("got no check %s, want one", name)
		case c.Detail == "" || (c.Status == OK) != (c.Matters == "") || len(c.Causes) != len(c.Fixes):
			t.Errorf("got the incomplete check %+v", c)
		}
	}
	for _, name := range []string{UserNamespace, Seccomp, SecondWall, Landlock} {
		if c := r.Check(name); c != nil {
			t.Errorf("got %+v, want no check: the launcher has not answered", c)
		}
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

// TestChecksFollowTheLauncher: the checks agree with the launcher's answer, and the steps after a
// failed one have no checks.
func TestChecksFollowTheLauncher(t *testing.T) {
	const works = "userNamespace ok, userMapping ok, mountNamespace ok, mountAPI ok, pidNamespace ok, "
	did := []string{didRead, didWrite, didProc, didFreshProc, didLoopback}
	for name, tt := range map[string]struct {
		files map[string]string
		probe runner.ProbeResult
		bwrap bool
		abi   int
		did   []string
		want  string
	}{
		"all works": {nil, runner.ProbeResult{Works: true}, true, 7, did,
			works + "freshProc ok, networkNamespace ok, otherNamespaces ok, seccomp ok, secondWall ok, landlock ok"},
		"no fresh /proc": {nil, runner.ProbeResult{Works: true}, true, 6, []string{didRead},
			works + "freshProc warning, networkNamespace ok, otherNamespaces ok, seccomp ok, secondWall ok, landlock ok"},
		"the host's /proc": {nil, runner.ProbeResult{Works: true}, true, 6, []string{didRead, didProc},
			works + "freshProc warning, networkNamespace ok, otherNamespaces ok, seccomp ok, secondWall ok, landlock ok"},
		"no sandbox was tried": {nil, runner.ProbeResult{Works: true}, false, 7, nil,
			works + "networkNamespace ok, otherNamespaces ok, seccomp ok, secondWall ok, landlock ok"},
		"user namespaces are forbidden": {nil, runner.ProbeResult{Step: runner.StepClone, Errno: unix.EPERM}, false, 7, nil,
			"userNamespace failed, secondWall ok, landlock ok"},
		"only bwrap may make them": {nil, runner.ProbeResult{Step: runner.StepClone, Errno: unix.EPERM}, true, 7, did,
			"userNamespace warning, secondWall ok, landlock ok"},
		"no network namespaces": {map[string]string{"proc/sys/user/max_net_namespaces": "0"},
			runner.ProbeResult{Step: runner.StepClone, Errno: unix.ENOSPC}, false, 7, nil, "networkNamespace failed, secondWall ok, landlock ok"},
		"a kernel without PID namespaces": {map[string]string{"proc/self/ns/user": "-> user", "proc/self/ns/mnt": "-> mnt"},
			runner.ProbeResult{Step: runner.StepClone, Errno: unix.EINVAL}, false, 7, nil, "pidNamespace failed, secondWall ok, landlock ok"},
		"no map of users": {nil, runner.ProbeResult{Step: runner.StepMap, Errno: unix.EPERM}, false, 7, nil,
			"userNamespace ok, userMapping failed, secondWall ok, landlock ok"},
		"no mounts": {nil, runner.ProbeResult{Step: runner.StepMount, Errno: unix.EACCES}, false, 7, nil,
			"userNamespace ok, userMapping ok, mountNamespace failed, pidNamespace ok, networkNamespace ok, otherNamespaces ok, secondWall ok, landlock ok"},
		"an old kernel": {nil, runner.ProbeResult{Step: runner.StepMount, Errno: unix.ENOSYS}, true, 1, did,
			"userNamespace ok, userMapping ok, mountAPI warning, pidNamespace ok, freshProc ok, networkNamespace ok, otherNamespaces ok, secondWall warning, landlock failed"},
		"no seccomp": {nil, runner.ProbeResult{Step: runner.StepFilter, Errno: unix.EINVAL}, false, 3, nil,
			works + "networkNamespace ok, otherNamespaces ok, seccomp failed, secondWall ok, landlock failed"},
		"no Landlock": {nil, runner.ProbeResult{Works: true}, true, 0, did,
			works + "freshProc ok, networkNamespace ok, otherNamespaces ok, seccomp ok, secondWall warning, landlock failed"},
	} {
		tt.probe.Reason = "a reason"
		e := &examination{ctx: t.Context(), facts: readFacts(host(tt.files)), launches: true, abi: tt.abi, did: tt.did, probed: map[string]runner.ProbeResult{
			namespacesName: tt.probe, landlockName: {Works: tt.abi >= 6, Reason: "a reason", Errno: unix.ENOSYS},
		}}
		e.report.Backends = []Backend{{Name: bwrapName, WorkspaceWrite: tt.bwrap}}
		e.namespaces()
		e.seccomp()
		e.landlock()
		var got []string
		for _, c := range e.report.Checks {
			got = append(got, c.Name+" "+string(c.Status))
		}
		if got := strings.Join(got, ", "); got != tt.want {
			t.Errorf("%s: got %s, want %s", name, got, tt.want)
		}
	}
}

func TestChildrenThatFailAreNotTakenForAnswers(t *testing.T) {
	for name, args := range map[string][]string{
		"an unknown child": {"/proc/self/exe", Arg, "nonsense"},
		"no answer":        {"/bin/true"},
		"another answer":   {"/bin/echo", "hello"},
		"no program":       {"/nonexistent"},
	} {
		if did, err := attempted(exec.Command(args[0], args[1:]...)); err == nil {
			t.Errorf("%s: got %q, want an error", name, did)
		}
	}
	ended, end := context.WithCancel(t.Context())
	end()
	if did, err := attempted(exec.CommandContext(ended, "/proc/self/exe", Arg, childWaits)); err == nil {
		t.Errorf("ended: got %q, want an error", did)
	}
}

// TestHelpersAreLookedAt: codex works without files of the helpers' names; the check says what other programs need.
func TestHelpersAreLookedAt(t *testing.T) {
	dir := t.TempDir()
	examine := func() string {
		e := &examination{facts: &facts{self: dir + "/program"}}
		e.helpers()
		c := e.report.Check(Helpers)
		if c == nil || c.Status != OK {
			t.Fatalf("got %+v, want an ok check", c)
		}
		return c.Detail
	}
	const alone = "another program that embeds the server needs files of these names in its directory"
	if got := examine(); !strings.Contains(got, alone) {
		t.Errorf("without files: got %q, want %q", got, alone)
	}
	for i, name := range []string{"codex-linux-sandbox", "codex-fs"} {
		if err := os.WriteFile(dir+"/"+name, nil, 0o755); err != nil {
			t.Fatal(err)
		}
		if got := examine(); strings.Contains(got, dir) != (i == 1) {
			t.Errorf("with %d files: got %q, want the directory: %v", i+1, got, i == 1)
		}
	}
}
