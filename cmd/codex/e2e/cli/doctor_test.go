package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
	"codex.internal/pkg/testutil/machine"
	"golang.org/x/sys/unix"
)

// diagnosis is the output of codex doctor --json. It is declared here again because other programs
// rely on these names.
type diagnosis struct {
	Schema         int
	Version        string
	System         string
	Arch           string
	Kernel         string
	UID            int
	Container      string
	ReadOnly       bool
	WorkspaceWrite bool
	Auto           struct{ Backend, Reason string }
	Backends       []struct {
		Name                            string
		Works, ReadOnly, WorkspaceWrite bool
		Reason                          string
	}
	Checks []struct {
		Name, Status, Detail, Matters string
		Causes, Fixes                 []string
	}
	Notes []string
}

// checked returns a check as one line. It returns an empty text if the check was not made.
func (d *diagnosis) checked(name string) string {
	for _, c := range d.Checks {
		if c.Name == name {
			return strings.Join(slices.Concat([]string{c.Status, c.Detail}, c.Causes, c.Fixes), "; ")
		}
	}
	return ""
}

// diagnose runs a doctor with JSON output.
func diagnose(t *testing.T, cmd *exec.Cmd) (*diagnosis, int) {
	t.Helper()
	var errs bytes.Buffer
	cmd.Stderr = &errs
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	d := &diagnosis{}
	if err := json.Unmarshal(text, d); err != nil {
		t.Fatalf("got error %v, text %s, stderr %s; want no error", err, text, errs.String())
	}
	return d, cmd.ProcessState.ExitCode()
}

func TestDoctorJSON(t *testing.T) {
	t.Parallel()
	temp := t.TempDir()
	cmd := exec.Command(harness.Codex, "doctor", "--json")
	cmd.Env = append(os.Environ(), "TMPDIR="+temp)
	text, err := cmd.Output()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	members := func(text json.RawMessage) []string {
		var all map[string]json.RawMessage
		harness.Must(t, json.Unmarshal(text, &all))
		var names []string
		for name := range all {
			names = append(names, name)
		}
		slices.Sort(names)
		return names
	}
	want := []string{"arch", "auto", "backends", "checks", "container", "kernel", "notes", "readOnly", "schema", "system", "uid", "version", "workspaceWrite"}
	if got := members(text); !slices.Equal(got, want) {
		t.Errorf("members %q", got)
	}
	var lists struct{ Backends, Checks []json.RawMessage }
	harness.Must(t, json.Unmarshal(text, &lists))
	for _, b := range lists.Backends {
		if got := strings.Join(members(b), " "); strings.Replace(got, "reason ", "", 1) != "name ownSockets readOnly works workspaceWrite" {
			t.Errorf("members of a backend %q", got)
		}
	}
	for _, c := range lists.Checks {
		if got := strings.Join(members(c), " "); strings.Replace(got, "matters ", "", 1) != "causes detail fixes name status" {
			t.Errorf("members of a check %q", got)
		}
	}

	d := &diagnosis{}
	harness.Must(t, json.Unmarshal(text, d))
	if d.Schema != 1 || d.System != "linux" || d.Arch != runtime.GOARCH || d.UID != os.Getuid() || d.Kernel == "" || d.Version == "" || len(d.Notes) == 0 {
		t.Errorf(`got %+v; want d.Schema 1, d.System "linux", d.Arch %v, d.UID os.Getuid(), d.Kernel other than "", d.Version other than "", len(d.Notes) other than 0`, d, runtime.GOARCH)
	}
	names := []string{"helpers", "userNamespace", "userMapping", "mountNamespace", "mountAPI", "pidNamespace", "freshProc", "networkNamespace",
		"otherNamespaces", "seccomp", "secondWall", "landlock", "broker", "bubblewrap", "terminal", "cgroup", "inotify"}
	at := 0
	for _, c := range d.Checks {
		i := slices.Index(names, c.Name)
		if i < at || !slices.Contains([]string{"ok", "warning", "failed", "absent"}, c.Status) || c.Detail == "" || c.Causes == nil || len(c.Causes) != len(c.Fixes) {
			t.Errorf("check %+v", c)
		}
		at = i
	}
	any := false
	for _, b := range d.Backends {
		any = any || b.WorkspaceWrite
	}
	if len(d.Backends) != 4 || any != d.WorkspaceWrite || d.WorkspaceWrite != (cmd.ProcessState.ExitCode() == 0) {
		t.Errorf("exit code %d: %+v", cmd.ProcessState.ExitCode(), d)
	}
	if left, err := os.ReadDir(temp); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}

func TestDoctorForPeople(t *testing.T) {
	t.Parallel()
	out, errs, code := harness.Run(t, "", "doctor")
	if errs != "" || code > 1 {
		t.Errorf(`got exit code %d, stderr %q; want stderr "", exit code at most 1`, code, errs)
	}
	for _, want := range []string{"user namespaces", "Landlock", "bubblewrap", "backend", "The backend auto "} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
}

// inside returns a command that runs in new namespaces, as their root.
func inside(flags uintptr, name string, args ...string) *exec.Cmd {
	cmd := exec.Command(name, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | flags,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}},
	}
	return cmd
}

// needNamespaces skips a test that needs namespaces to simulate a broken host.
func needNamespaces(t *testing.T) {
	t.Helper()
	err := inside(syscall.CLONE_NEWNS|syscall.CLONE_NEWPID, "/bin/true").Run()
	testutil.Need(t, "namespaces for its users", err, syscall.EPERM, syscall.EACCES, syscall.ENOSPC, syscall.EINVAL)
}

func TestDoctorOfABrokenHost(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	needNamespaces(t)
	// Where the broker works, a policy is enforced without namespaces, too.
	brokered, without := machine.Has(t, os.Geteuid(), machine.Broker), "failed"
	if brokered {
		without = "warning"
	}
	for name, tt := range map[string]struct {
		flags uintptr
		spoil string // a script that breaks the host
		enf   bool   // workspace-write can be enforced all the same
		check string
		want  []string // expected in the check
	}{
		"no user namespaces": {
			spoil: "echo 0 >/proc/sys/user/max_user_namespaces", enf: brokered, check: "userNamespace",
			want: []string{without, "user.max_user_namespaces is 0", "sudo sysctl --system"},
		},
		"no mount namespaces": {
			spoil: "echo 0 >/proc/sys/user/max_mnt_namespaces", enf: brokered, check: "mountNamespace",
			want: []string{without, "no space left on device", "user.max_mnt_namespaces is 0"},
		},
		"no network namespaces": {
			spoil: "echo 0 >/proc/sys/user/max_net_namespaces", enf: brokered, check: "networkNamespace",
			want: []string{without, "no space left on device", "user.max_net_namespaces is 0"},
		},
		"a masked /proc": {
			flags: syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, enf: true, check: "freshProc",
			spoil: "mount -t proc proc /proc && mount -t tmpfs tmpfs /proc/irq",
			want:  []string{"warning", "masked here (/proc/irq)"},
		},
		"no PTYs": {
			flags: syscall.CLONE_NEWNS, enf: true, check: "terminal",
			spoil: "mount --bind /dev/null /dev/ptmx", want: []string{"warning"},
		},
		"a TMPDIR that is not there": {
			spoil: "export TMPDIR=" + t.TempDir() + "/none", check: "seccomp", want: []string{"ok"},
		},
	} {
		d, code := diagnose(t, inside(tt.flags, "/bin/sh", "-c", "set -e; "+tt.spoil+`; exec "$0" doctor --json`, harness.Codex))
		got := d.checked(tt.check)
		for _, want := range tt.want {
			if !strings.Contains(got, want) {
				t.Errorf("%s: no %q in %q", name, want, got)
			}
		}
		if d.WorkspaceWrite != tt.enf || tt.enf != (code == 0) {
			t.Errorf("%s: exit code %d, %+v", name, code, d)
		}
		// If only Landlock works, doctor must not report that all checks succeeded.
		if !d.WorkspaceWrite && d.ReadOnly && !strings.Contains(strings.Join(d.Notes, " "), "Landlock alone cannot protect .git") {
			t.Errorf("%s: notes %q", name, d.Notes)
		}
	}
}

func TestDoctorOfARootWithoutSETFCAP(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("for root only")
	}
	needNamespaces(t)
	cmd := exec.Command(harness.Codex, "doctor", "--json")
	type result struct {
		d    *diagnosis
		code int
	}
	done := make(chan result)
	go func() {
		// The thread is never unlocked, so it ends with this goroutine.
		runtime.LockOSThread()
		defer close(done)
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, unix.CAP_SETFCAP, 0, 0, 0); err != nil {
			t.Error(err)
			return
		}
		var out bytes.Buffer
		cmd.Stdout = &out
		if err := cmd.Start(); err != nil {
			t.Error(err)
			return
		}
		_ = cmd.Wait()
		d := &diagnosis{}
		if err := json.Unmarshal(out.Bytes(), d); err != nil {
			t.Errorf("got error %v, stdout %s; want no error", err, out.String())
			return
		}
		done <- result{d, cmd.ProcessState.ExitCode()}
	}()
	r, ok := <-done
	if !ok {
		return
	}
	if got := r.d.checked("userMapping"); (r.code == 0) != machine.Has(t, 0, machine.Broker) || !strings.Contains(got, "SETFCAP") {
		t.Errorf("exit code %d, %q", r.code, got)
	}
}
