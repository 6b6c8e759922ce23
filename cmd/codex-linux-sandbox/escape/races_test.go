package escape

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"codex.internal/pkg/testutil"
	"golang.org/x/sys/unix"
)

// launcherOfTheControl has a broker that checks a call and lets the kernel make it.
var launcherOfTheControl = launcherWith("broker-control", "sandbox_broker_control")

// longestRace is how long a race against the control may take, in milliseconds. Most take one.
const longestRace = "10000"

// TestRaces: two threads of the attacker make a call while a third one exchanges the directory, the memory, the working directory or
// the descriptor that it is about. Nothing guarded changes. Against a broker that checks a call and lets the kernel make it each
// race wins: otherwise it would prove nothing.
func TestRaces(t *testing.T) {
	milliseconds := strconv.Itoa(testutil.Rounds(100, 100, 300))
	places := []string{"ws/.git", "outside"} // the guarded directory is in the workspace, or beside it
	for i, name := range racesOfTheAttacker(t) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, _, errno := unix.Syscall(unix.SYS_FCHMODAT2, ^uintptr(0), 0, 0); errno == unix.ENOSYS && strings.HasSuffix(name, ": fchmodat2") {
				t.Skip("this machine has no fchmodat2: the kernel is older than 6.6, or a container's filter does not know the call")
			}
			for _, uid := range testutil.Choice(name, users()) {
				t.Run("broker as "+strconv.Itoa(uid), func(t *testing.T) {
					need(t, uid, "broker")
					// Each user tries the other place.
					race(t, uid, places[(i+min(uid, 1))%len(places)], name, milliseconds)
				})
			}
		})
	}
}

// race runs one race with the broker, and then its control.
func race(t *testing.T, uid int, guarded, name, milliseconds string) {
	t.Helper()
	p := newPlace(t, uid)
	p.guard()
	args := []string{"race", name, p.ws + "/r", p.dir + "/" + guarded, milliseconds}
	o := p.run("broker", p.guarded(), args...)
	contained(t, o)
	guardHeld(t, p, true)
	if testing.Verbose() {
		t.Log(o)
	}
	p.use(launcherOfTheControl)
	// Landlock does not grant what is outside, also not in the control.
	args[2], args[3], args[4] = p.ws+"/again", p.ws+"/.git", longestRace
	if o := p.run("broker", p.guarded(), args...); !slices.Equal(o.breaches(), []string{name}) {
		t.Errorf("the race does not win against the control: %v", o)
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
