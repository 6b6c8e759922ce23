package remote

import (
	"strings"
	"testing"
)

// TestDeleteIsGuarded: --delete refuses targets that are most likely a mistake.
func TestDeleteIsGuarded(t *testing.T) {
	const home = "/srv/people/ada"
	for target, want := range map[string]string{
		"/": "root directory", home: "your home directory", "/srv/people": "home directories", "/srv": "home directories", "/root": "a home directory",
		"/home/bob": "a home directory", "/mnt/data": "a mount point", "/mnt/data/d": "", "/srv/people/ada/project": "", "/home/bob/x": "", "/srv/peopl": "",
	} {
		err := guarded(target, home, func() bool { return target == "/mnt/data" })
		if got := err != nil; got != (want != "") || got && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", target, err, want)
		}
	}
}
