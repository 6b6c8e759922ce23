package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport are the groups of packages below pkg, and the groups that each may
// import besides itself. docs/architecture.md explains the rule: what knows more
// imports what knows less. Packages that touch the machine (host) know no
// protocol, and packages that speak one (wire) know nothing else.
var mayImport = map[string][]string{
	"wire":       {},
	"execproto":  {"wire"},
	"host":       {},
	"internal":   {"host", "wire"},
	"fileop":     {"host", "wire", "execproto"},
	"relay":      {"wire", "execproto", "internal"},
	"sandbox":    {"host", "wire", "internal"},
	"account":    {"relay", "host", "wire", "internal"},
	"approval":   {"execclient", "sandbox", "wire", "execproto"},
	"execserver": {"execclient", "sandbox", "fileop", "host", "wire", "execproto", "internal"},
	"execclient": {"sandbox", "wire", "execproto", "internal"},
	"execenv":    {"execclient", "account", "relay", "host", "wire", "execproto"},
	"rendezvous": {"relay", "host", "wire", "internal"},
	"testutil":   {"wire"},
}

// testPackages are those outside of tests that are for tests alone: what end-to-end tests import.
var testPackages = []string{"codex.internal/cmd/codex/e2e/harness"}

// TestGroupsImportWhatTheyMay checks the imports of every package, without those
// of tests. The commands may import all groups but testutil.
func TestGroupsImportWhatTheyMay(t *testing.T) {
	const pkg = "codex.internal/pkg/"
	seen := 0
	for _, module := range []string{"pkg", "cmd/codex", "cmd/codex-fs", "cmd/codex-linux-sandbox"} {
		cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
		cmd.Dir = repository + "/" + module
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("list the packages of %s: %v", module, err)
		}
		for line := range strings.Lines(string(out)) {
			words := strings.Fields(line)
			name, isOurs := strings.CutPrefix(words[0], pkg)
			group, _, _ := strings.Cut(name, "/")
			allowed, known := mayImport[group]
			if isOurs && !known {
				t.Errorf("%s belongs to no group: give it one in mayImport", name)
			}
			for _, imported := range words[1:] {
				other, ok := strings.CutPrefix(imported, pkg)
				if !ok {
					continue
				}
				seen++
				to, _, _ := strings.Cut(other, "/")
				if isOurs && to != group && !slices.Contains(allowed, to) || !isOurs && to == "testutil" && !slices.Contains(testPackages, words[0]) {
					t.Errorf("%s imports %s, which it must not", words[0], other)
				}
			}
		}
	}
	if seen == 0 {
		t.Error("no package imports another: the list is wrong")
	}
}
