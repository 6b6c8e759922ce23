package execserver

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedExtensions compares what initialize announces with the documents: a
// client must not use an extension that is not named there.
func TestDocumentedExtensions(t *testing.T) {
	name := regexp.MustCompile("`([a-z]+/[a-zA-Z/]+)`")
	for document, section := range map[string]string{
		"../../docs/spec/wire.md": "### 8.2 Extensions of this server",
		"../../docs/protocol.md":  "## Extensions",
	} {
		text, err := os.ReadFile(document)
		if err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(string(text), "\n"+section+"\n")
		rest, _, _ = strings.Cut(rest, "\n##")
		shown := make(map[string]bool)
		for line := range strings.Lines(rest) {
			// Rows begin with names; other cells name methods that an extension changes.
			cell, isRow := strings.CutPrefix(line, "| ")
			cell, _, _ = strings.Cut(cell, " |")
			if !isRow && strings.HasPrefix(section, "### ") {
				continue
			}
			for _, m := range name.FindAllStringSubmatch(cell, -1) {
				shown[m[1]] = true
			}
		}
		got, want := slices.Sorted(maps.Keys(shown)), slices.Sorted(slices.Values(slices.Concat(extensions, detachExtensions)))
		if !slices.Equal(got, want) {
			t.Errorf("%s names %q, want %q", document, got, want)
		}
	}
}
