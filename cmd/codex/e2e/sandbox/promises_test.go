package sandbox

import (
	"encoding/json"
	"strings"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// TestPromisesOfTheBackend: Codex CLI requests streams of confined files, and approved escalations
// under a profile with denied reads, only if the server announces that its backend supports them.
// Landlock cannot enforce every policy, so a server with this backend announces neither.
func TestPromisesOfTheBackend(t *testing.T) {
	t.Parallel()
	var probe struct {
		Backends []struct {
			Name  string
			Works bool
		}
	}
	out, _, _ := harness.Run(t, "", "doctor", "--json")
	harness.Must(t, json.Unmarshal([]byte(out), &probe))
	tried := 0
	for _, b := range probe.Backends {
		out, errs, code := harness.Run(t, `{"id":1,"method":"initialize","params":{"clientName":"t"}}
{"method":"initialized"}
{"id":2,"method":"environment/info","params":{}}
`, "exec-server", "--listen", "stdio", "--sandbox-backend", b.Name)
		if code != 0 {
			t.Fatalf("%s: exit code %d: %s", b.Name, code, errs)
		}
		announced := 0
		if b.Works && b.Name != "landlock" && b.Name != "broker" {
			announced = 2 // each of the two responses contains it
			tried++
		}
		for _, name := range []string{"sandboxedFileStreaming", "linuxApprovedRootWritePreservesRestrictions", "linuxRootWritePreservesDevices"} {
			want := announced
			if b.Works && b.Name == "broker" && name == "sandboxedFileStreaming" {
				want = 2 // the broker enforces policies with a writable workspace
			}
			if n := strings.Count(out, `"`+name+`":true`); n != want {
				t.Errorf("%s: %s is announced %d times, not %d: %s", b.Name, name, n, want, out)
			}
		}
	}
	if tried == 0 {
		t.Skip("no backend here enforces every policy")
	}
}
