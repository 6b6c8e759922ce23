package escape

import (
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
)

// TestRaces: two threads of the attacker make a call while a third one exchanges the directory, the memory, the working directory or
// the descriptor that it is about. Nothing guarded changes. Each race wins outside of a sandbox.
func TestRaces(t *testing.T) {
	milliseconds := strconv.Itoa(testutil.Rounds(100, 300, 3000))
	for _, name := range racesOfTheAttacker(t) {
		t.Run(name, func(t *testing.T) {
			for uid, backends := range testutil.Pairs(name, testutil.Choice(name, users()), testutil.Choice(name, guarding)) {
				for _, backend := range backends {
					t.Run(backend+" as "+strconv.Itoa(uid), func(t *testing.T) {
						need(t, uid, backend)
						for _, guarded := range testutil.Choice(name+backend, []string{"ws/.git", "outside"}) {
							p := newPlace(t, uid)
							p.guard()
							args := []string{"race", name, p.ws + "/r", p.dir + "/" + guarded, milliseconds}
							o := p.run(backend, p.guarded(), args...)
							contained(t, o)
							guardHeld(t, p, true)
							if testing.Verbose() {
								t.Log(o)
							}
							works(t, p.run("", "", append(args[:2:2], p.ws+"/again", args[3], "10000")...))
						}
					})
				}
			}
		})
	}
}

// racesOfTheAttacker returns the names of all races.
func racesOfTheAttacker(t *testing.T) []string {
	t.Helper()
	var names []string
	for line := range strings.Lines(newPlace(t, users()[0]).run("", "", "races").text) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "race: "); ok {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		t.Fatal("got no names of races")
	}
	return names
}
