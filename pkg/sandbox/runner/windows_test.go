package runner

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/pkg/sandbox/winsandbox"
)

// TestWindowsLaunches follows launches on a Windows host up to the set-up helper, on
// any system: the missing part is named, and nothing runs.
func TestWindowsLaunches(t *testing.T) {
	const (
		current = `{"version":5,"offline_username":"off","online_username":"on","proxy_ports":[8080]}`
		marker  = "sandbox setup marker missing or incompatible"
		users   = "sandbox users missing or incompatible with marker version"
	)
	command := func(env map[string]string) func(home, programs string) error {
		return func(home, programs string) error {
			return PrepareWindows(winsandbox.Launch{CodexHome: home, CommandCwd: home, Env: env, NetworkRestricted: true}, programs)
		}
	}
	for name, tt := range map[string]struct {
		marker string // empty: none
		helper bool   // the set-up helper exists
		launch func(home, programs string) error
		reason string
		why    string // empty: the set-up helper does not exist
	}{
		"no marker":                       {"", false, command(nil), marker, ""},
		"a broken marker":                 {"{", false, command(nil), marker, ""},
		"a marker that is too large":      {current + strings.Repeat(" ", maxMarker), false, command(nil), marker, ""},
		"a marker of another version":     {strings.Replace(current, "5", "4", 1), false, command(nil), marker, ""},
		"other firewall rules":            {current, false, command(nil), "offline firewall settings changed (stored_ports=[8080], desired_ports=[]", ""},
		"the same firewall rules":         {current, false, command(map[string]string{"HTTP_PROXY": "http://127.0.0.1:8080"}), users, ""},
		"a set-up helper that cannot run": {"", true, command(nil), marker, "this release cannot run it"},
	} {
		t.Run(name, func(t *testing.T) {
			home, programs := t.TempDir(), t.TempDir()
			at := filepath.Join(home, windowsMarker)
			setup := filepath.Join(programs, windowsSetup)
			if err := os.Mkdir(filepath.Dir(at), 0o700); err != nil {
				t.Fatal(err)
			}
			for path, there := range map[string]bool{at: tt.marker != "", setup: tt.helper} {
				if !there {
					continue
				}
				if err := os.WriteFile(path, []byte(tt.marker), 0o700); err != nil {
					t.Fatal(err)
				}
			}
			err := tt.launch(home, programs)
			if !errors.Is(err, ErrNoSetup) {
				t.Fatalf("got %v, want ErrNoSetup", err)
			}
			if missing := errors.Is(err, fs.ErrNotExist); missing == tt.helper {
				t.Errorf("got %v, and whether the helper is missing is %v", err, missing)
			}
			for _, part := range []string{tt.reason, setup, tt.why} {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("got %q, which does not say %q", err, part)
				}
			}
		})
	}
}
