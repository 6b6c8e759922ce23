package server

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRendezvousTokenFile: a unit starts a server with the empty file of a new package, and the
// service only said that the token is not valid.
func TestRendezvousTokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "token")
	for text, want := range map[string]string{"": path + " is empty", " \n": path + " is empty", "token\n": ""} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		r := &registrar{tokenFile: path, url: "https://meet.example"}
		if _, err := r.resolve(t.Context()); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got error %v, want one with %q, or none if that is empty", text, err, want)
		}
	}
}
