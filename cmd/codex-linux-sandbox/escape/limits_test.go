package escape

import (
	"os"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil/machine"
)

// TestWatchersAreLeftForOthers: a command can take only a share of the inotify instances of its
// user. If a command took all, no other sandbox that watches for a .git could start.
func TestWatchersAreLeftForOthers(t *testing.T) {
	machine.NeedSettings(t) // because the launcher sets limits of user namespaces
	text, err := os.ReadFile("/proc/sys/fs/inotify/max_user_instances")
	must(t, err)
	limit, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	if limit < 8 || limit > 256 {
		t.Skipf("%d instances for each user are too few, or too many for the limit of open files", limit)
	}
	// Slightly more than the share.
	take := strconv.Itoa(limit/4 + 1)
	oneByOne(t, mounted, func(t *testing.T, p *place, backend string) {
		works(t, p.run("", "", "watchers", take))
		contained(t, p.run(backend, p.readOnly(), "watchers", take))
		if o := p.run(backend, p.readOnly(), "watchers", "1"); len(o.breaches()) != 1 {
			t.Errorf("nothing can be watched: %v", o)
		}
	})
}

// TestTasksAreLeftForTheServer: a command cannot raise the limit of processes that the server has given it.
func TestTasksAreLeftForTheServer(t *testing.T) {
	const most = "3000" // more processes than the user has, so that the sandbox can be created
	oneByOne(t, everyBackend, func(t *testing.T, p *place, backend string) {
		works(t, p.run("", "", "tasks", most))
		for _, profile := range []string{p.readOnly(), entries("root=write")} {
			cmd := p.command(t.Context(), backend, profile, "tasks", most)
			cmd.Args = append([]string{cmd.Args[0], "--tasks", most}, cmd.Args[1:]...)
			contained(t, p.finish(cmd))
		}
	})
}
