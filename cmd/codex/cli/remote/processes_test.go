package remote

import (
	"strings"
	"testing"
)

// TestTheTableNamesOwners: a list of the whole server has the owner of each process, who could
// otherwise control the terminal.
func TestTheTableNamesOwners(t *testing.T) {
	for _, tt := range []struct {
		owners bool
		want   string // the first words of the lines
	}{{false, "PROCESS build p"}, {true, `OWNER you token\x1bx`}} {
		l := processList{owners: tt.owners, rows: []processRow{{Handle: "build"}, {ProcessID: "p", Principal: "token\x1bx"}}}
		var out strings.Builder
		if err := l.print(&out); err != nil {
			t.Fatal(err)
		}
		var words []string
		for line := range strings.Lines(out.String()) {
			words = append(words, strings.Fields(line)[0])
		}
		if got := strings.Join(words, " "); got != tt.want {
			t.Errorf("owners %v: got %q, want %q", tt.owners, got, tt.want)
		}
	}
}
