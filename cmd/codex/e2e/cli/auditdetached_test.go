package cli

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
	"codex.internal/pkg/testutil"
)

// TestAuditedDetached: the trail records the end of each detached process once. The process may end
// while a server runs, while no server runs, together with its keeper, or when it is forgotten at once.
func TestAuditedDetached(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes seconds")
	}
	t.Parallel()
	dir := t.TempDir()
	trail := filepath.Join(dir, "audit.log")
	options := []string{"--audit-log", trail, "--audit-key", filepath.Join(dir, "key.pem")}
	d := newDetaching(t, options...)
	shown := func() string {
		t.Helper()
		out, errs, code := harness.Run(t, "", "audit", "show", trail)
		if code != 0 {
			t.Fatal(errs)
		}
		return out
	}
	ends := func(name string) (lines []string) {
		t.Helper()
		for line := range strings.Lines(shown()) {
			if strings.Contains(line, " process.ended ") && strings.Contains(line, "processId=detached/"+name+" ") {
				lines = append(lines, line)
			}
		}
		return lines
	}
	await := func(name, want string) {
		t.Helper()
		testutil.Eventually(t.Context(), t, "the end of "+name+" in the trail", func() (string, bool) {
			lines := ends(name)
			return shown(), len(lines) == 1 && strings.Contains(lines[0], want)
		})
	}
	d.must("run", "--detach", "--name", "here", "--", "sh", "-c", "sleep 0.1; exit 3")
	await("here", "cause=exit exitCode=3")
	wantEvent(t, eventsSoFar(t, trail), "process.detached", map[string]string{"processId": `"detached/here"`, "session": `".+"`})
	d.must("run", "--detach", "--name", "forgotten", "--", "true")
	d.must("wait", "forgotten")
	d.must("forget", "forgotten")
	await("forgotten", "exitCode=0")
	if _, _, code := d.run("run", "--detach", "--name", "never", "--", "/no/such/program"); code == 0 {
		t.Error("a program that does not exist was started")
	}
	if text := shown(); !strings.Contains(text, " process.not_started ") || len(ends("never")) != 0 {
		t.Errorf("the trail has\n%s", text)
	}
	d.must("run", "--detach", "--name", "meanwhile", "--stdin", "--", "sh", "-c", "sleep 1; exit 5")
	d.end(syscall.SIGKILL)
	d.awaitNoKeepers(t.Context())
	d.start(options...)
	await("meanwhile", "exitCode=5")
	d.must("run", "--detach", "--name", "lost", "--", "sleep", "600")
	for _, pid := range d.keepers() {
		harness.Must(t, syscall.Kill(pid, syscall.SIGKILL))
	}
	await("lost", "exitCode=-1")
	for _, name := range []string{"here", "meanwhile"} {
		if lines := ends(name); len(lines) != 1 {
			t.Errorf("%s is there %d times", name, len(lines))
		}
	}
}
