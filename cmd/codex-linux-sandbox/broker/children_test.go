package broker_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/pkg/testutil/machine"
)

// TestTheLauncherReapsItsJanitor: while a command runs by the broker, the init is the launcher's only child. The launcher has started a janitor
// for the backends before, and nobody would reap it, because the launcher executes itself again.
func TestTheLauncherReapsItsJanitor(t *testing.T) {
	machine.NeedLandlock(t, 2)
	machine.NeedUserNamespaces(t)
	program, err := launcher()
	must(t, err)
	dir := t.TempDir()
	// Nothing has to be guarded by a placeholder, so that no backend tells the janitor to end.
	var entries []string
	for _, name := range []string{"", ".git", ".codex", ".agents"} {
		entries = append(entries, fmt.Sprintf(`{"path":{"type":"path","path":%q},"access":"write"}`, filepath.Join(dir, name)))
	}
	profile := `{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[
		{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},` + strings.Join(entries, ",") + `]}}`
	// In a user namespace that may have none below it, auto takes the broker.
	cmd := exec.Command("/bin/sh", "-c", `echo 0 >/proc/sys/user/max_user_namespaces && exec "$0" "$@"`, program,
		"--sandbox-policy-cwd", dir, "--permission-profile", profile, "--", "/bin/sh", "-c", "echo runs; read line")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}}, GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	defer func() { _ = cmd.Wait() }()
	defer in.Close()
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "runs\n" {
		t.Fatalf("got %q, %v; want the command to run", line, err)
	}
	words, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid))
	must(t, err)
	if !strings.Contains(string(words), "--in-domain") {
		t.Fatalf("got %q, want the broker", words)
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", cmd.Process.Pid))
	must(t, err)
	var children []string
	for _, name := range tasks {
		text, err := os.ReadFile(name)
		must(t, err)
		children = append(children, strings.Fields(string(text))...)
	}
	if len(children) != 1 {
		t.Errorf("got the children %v, want the init only", children)
	}
}

// TestASandboxInASandbox: the broker's filter lets no second sandbox be made, and the launcher says so.
func TestASandboxInASandbox(t *testing.T) {
	machine.NeedLandlock(t, 2)
	program, err := launcher()
	must(t, err)
	dir := workspace(t)
	cmd := sandboxed(t, dir, 6, program)
	cmd.Args = append(cmd.Args, cmd.Args[1:]...) // the same sandbox again, in place of the command
	var errs strings.Builder
	cmd.Args[len(cmd.Args)-1], cmd.Stderr = "true", &errs
	if err := cmd.Run(); err == nil || !strings.Contains(errs.String(), "in a sandbox of the backend broker, which permits no second one") {
		t.Errorf("got error %v and %q, want an error that says why no second sandbox can be made", err, errs.String())
	}
}

// TestTheBrokerIsNotNeeded: if all files may be changed, no call is stopped, as no broker runs.
func TestTheBrokerIsNotNeeded(t *testing.T) {
	machine.NeedLandlock(t, 2)
	program, err := launcher()
	must(t, err)
	name := filepath.Join(t.TempDir(), "f")
	out, err := exec.Command(program, "--backend", "broker", "--sandbox-policy-cwd", "/", "--permission-profile",
		`{"type":"managed","file_system":{"type":"unrestricted"},"network":"restricted"}`, "--", "/bin/sh", "-c", `: > "$0"`, name).CombinedOutput()
	if err != nil {
		t.Errorf("make a file: %v: %s", err, out)
	}
}
