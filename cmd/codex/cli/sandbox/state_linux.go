package sandbox

import (
	"path/filepath"

	"codex.internal/pkg/account/home"
	"codex.internal/pkg/execserver/confine"
	"codex.internal/pkg/sandbox/permissions"
	"codex.internal/pkg/sandbox/runner"
	"github.com/urfave/cli/v2"
)

// hideState denies a profile the files that the sandboxes of this user's servers hide, at their default places: the detached
// processes, whose output and secrets a command could read in the home directory, and the client's keys. Landlock cannot hide
// files, and would refuse each command. So with Landlock the profile stays unchanged, except with --stricter.
func hideState(c *cli.Context, p *permissions.Profile) {
	var named []string
	if dir := home.Detached(); dir != "" {
		named = append(named, dir)
	}
	if dir, err := home.Find(); err == nil {
		named = append(named, filepath.Join(dir, home.ClientKeys))
	}
	state := confine.Present(named)
	if len(state) == 0 || !c.Bool("stricter") && !hides(c.String("backend")) {
		return
	}
	confine.Hide(p, state)
}

// hides reports whether a backend can hide files.
func hides(backend string) bool {
	r, err := runner.NewRuntime(runner.Options{Backend: backend, Self: true})
	if err != nil {
		return false
	}
	defer r.Close()
	return r.Status().Complete
}
