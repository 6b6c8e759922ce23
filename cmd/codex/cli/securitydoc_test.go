package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// repository is the path of the repository's root, where the documents are.
const repository = "../../.."

var (
	citedTest   = regexp.MustCompile("`([a-z][a-z0-9/-]*): (Test[A-Za-z0-9_]+)`")
	citedScript = regexp.MustCompile("`(scripts/[a-z]+)`")
	citedLink   = regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`)
)

// TestSecurityDocument: the security document cites tests, scripts and documents for its promises.
// All of them exist, and each promise cites at least one.
func TestSecurityDocument(t *testing.T) {
	document := read(t, "docs/security.md")
	for _, m := range citedTest.FindAllStringSubmatch(document, -1) {
		if !hasTest(t, m[1], m[2]) {
			t.Errorf("%s has no %s", m[1], m[2])
		}
	}
	for _, m := range citedScript.FindAllStringSubmatch(document, -1) {
		exists(t, m[1])
	}
	for _, name := range []string{"docs/security.md", "SECURITY.md"} {
		for _, m := range citedLink.FindAllStringSubmatch(read(t, name), -1) {
			exists(t, filepath.Join(filepath.Dir(name), m[1]))
		}
	}
	// Find the rows of tables with the column "shown by".
	promises, shown := 0, false
	for line := range strings.Lines(document) {
		line = strings.TrimSpace(line)
		switch {
		case !strings.HasPrefix(line, "|"):
			shown = false
		case strings.HasSuffix(line, "| shown by |"):
			shown = true
		case shown && !strings.HasPrefix(line, "|---"):
			promises++
			cells := strings.Split(line, "|")
			if last := cells[len(cells)-2]; !citedTest.MatchString(last) {
				t.Errorf("nothing shows this: %s", line)
			}
		}
	}
	if promises == 0 {
		t.Error("there are no promises")
	}
}

func read(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(repository, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func exists(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(filepath.Join(repository, name)); err != nil {
		t.Error(err)
	}
}

// hasTest reports whether a package has a test.
func hasTest(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(repository, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(text), "\nfunc "+name+"(") {
			return true
		}
	}
	return false
}
