package execenv

import "testing"

// TestReasonsOfSSH: the last line is the reason, unless a line says that the program does not
// exist: a greeting from another stream may follow that line.
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
	}
}
