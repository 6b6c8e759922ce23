package execserver

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// TestDocumentedExtensions compares the extensions that initialize announces with
// the documents: a client must not use an undocumented extension.
func TestDocumentedExtensions(t *testing.T) {
	want := slices.Sorted(slices.Values(slices.Concat(extensions, detachExtensions)))
	got := slices.Sorted(maps.Keys(namesInTable(t, "../../docs/spec/wire.md", "### 8.2 Extensions of this server", "")))
	if !slices.Equal(got, want) {
		t.Errorf("docs/spec/wire.md §8.2 names %q, want %q", got, want)
	}
	// The table of methods may list a method, such as fs/unwatch, that belongs to an
	// extension with another name.
	const protocol = "../../docs/protocol.md"
	methods, others := namesInTable(t, protocol, "## Methods", "extension"), namesInTable(t, protocol, "## Extensions", "")
	for _, name := range want {
		if !methods[name] && !others[name] {
			t.Errorf("docs/protocol.md names %s neither as an extension in its table of methods nor in that of extensions, want one", name)
		}
	}
	for name := range others {
		if !slices.Contains(want, name) {
			t.Errorf("docs/protocol.md names the extension %s, which the server does not have", name)
		}
	}
}

// namesInTable returns the names in the first cells of the rows of a section, for rows whose second cell begins with a
// word. Other rows name methods that an extension changes.
func namesInTable(t *testing.T, document, section, word string) map[string]bool {
	t.Helper()
	text, err := os.ReadFile(document)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "\n"+section+"\n")
	rest, _, _ = strings.Cut(rest, "\n##")
	names := make(map[string]bool)
	for _, row := range regexp.MustCompile(`(?m)^\| (.*?) \| (.*)`).FindAllStringSubmatch(rest, -1) {
		for _, m := range regexp.MustCompile("`([a-z]+/[a-zA-Z/]+)`").FindAllStringSubmatch(row[1], -1) {
			if strings.HasPrefix(row[2], word) {
				names[m[1]] = true
			}
		}
	}
	return names
}
