package execenv

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// The last line on standard error is the reason, unless a line says that the program does not exist. What the shell prints on
// standard output, before or after it, is the reason only if there is no other.
func TestReasonsOfSSH(t *testing.T) {
	for said, want := range map[string]string{
		"":                                  "",
		"Welcome\nPermission denied\n":      "Permission denied",
		"motd\n" + notFound + "\n":          notFound,
		"motd\n" + notFound + "\nWelcome\n": notFound,
		notFound + "\r\nWelcome":            notFound,
		"no " + notFound + "\nWelcome\n":    "Welcome",
	} {
		g := &gate{}
		if _, err := g.Write([]byte(said)); err != nil {
			t.Fatal(err)
		}
		if got := g.reason(); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
		if _, err := (*greeting)(g).Write([]byte("greeting\n")); err != nil {
			t.Fatal(err)
		}
		if got := g.reason(); got != cmp.Or(want, "greeting") {
			t.Errorf("%q and a greeting: %q, want %q", said, got, cmp.Or(want, "greeting"))
		}
	}
}

// TestSharedSSH: commands for one machine share a connection if its socket is safe there.
func TestSharedSSH(t *testing.T) {
	dir, err := os.MkdirTemp("", "s") // a short path
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	open := filepath.Join(dir, "open")
	if err := errors.Join(os.Mkdir(open, 0o700), os.Chmod(open, 0o777)); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		dir  string
		want bool
	}{
		"private":               {filepath.Join(dir, "a/b"), true},
		"none":                  {"", false},
		"too long":              {filepath.Join(dir, strings.Repeat("x", maxSocketDir)), false},
		"odd":                   {filepath.Join(dir, "a b"), false},
		"below a public folder": {filepath.Join(open, "a"), false},
	} {
		_, args := SSHHost{Host: "h", Args: []string{"-oControlMaster=no"}, Sockets: tt.dir}.Command("true")
		if got := slices.Contains(args, "ControlPath="+tt.dir+"/%C"); got != tt.want || args[0] != "-oControlMaster=no" {
			t.Errorf("%s: got ssh %q, want shared: %v, after the user's options", name, args, tt.want)
		}
	}
}
