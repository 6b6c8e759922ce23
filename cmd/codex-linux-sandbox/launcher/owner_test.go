package launcher

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/testutil/machine"
)

// TestAWorkspaceOfAnotherUser: root's sandbox has no rights in a private workspace of another user. --explain and the error, where no sandbox can be
// made, say so.
func TestAWorkspaceOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can make a workspace of another user")
	}
	dir, err := os.MkdirTemp("/var/tmp", "owner")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	workspace := filepath.Join(dir, "workspace")
	const owner = 65534
	for _, do := range []error{os.Chmod(dir, 0o700), os.Mkdir(workspace, 0o700), os.Chown(workspace, owner, owner)} {
		if do != nil {
			t.Fatalf("make a workspace of another user: %v", do)
		}
	}
	profile := fmt.Sprintf(`{"type":"managed","network":"restricted","file_system":{"type":"restricted","entries":[
		{"path":{"type":"special","value":{"kind":"root"}},"access":"read"},{"path":{"type":"path","path":%q},"access":"write"}]}}`, workspace)
	want := fmt.Sprintf("%s belongs to user %d", workspace, owner)
	for _, backend := range []string{machine.Namespaces, machine.Broker} {
		t.Run(backend, func(t *testing.T) {
			machine.NeedBackend(t, backend)
			args := []string{"--backend", backend, "--sandbox-policy-cwd", workspace, "--permission-profile", profile, "--", "true"}
			if out, err := launcherCommand(t, append([]string{"--explain"}, args...)...).CombinedOutput(); err != nil || !strings.Contains(string(out), want) {
				t.Errorf("--explain: got error %v and %s, want no error and %q", err, out, want)
			}
			if backend == machine.Broker {
				return // the command runs, and finds what it may not do
			}
			if out, err := launcherCommand(t, args...).CombinedOutput(); err == nil || !strings.Contains(string(out), want) {
				t.Errorf("got error %v and %s, want an error with %q", err, out, want)
			}
		})
	}
}
