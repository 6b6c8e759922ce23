package cli

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// mayImport maps the groups of packages below pkg to the groups that each may import besides
// itself. docs/architecture.md explains the rule: specific packages import general ones. Packages
// that act on the machine (host) do not depend on a protocol, and packages that implement a
// protocol (wire) do not depend on anything else.
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
	"execclient": {"sandbox", "host", "wire", "execproto", "internal"},
	"execenv":    {"execclient", "account", "relay", "host", "wire", "execproto"},
	"rendezvous": {"relay", "host", "wire", "internal"},
	"testutil":   {"wire"},
}

// launcherMayImport maps the packages of cmd/codex-linux-sandbox to the packages of this repository that each may
// import. The launcher must be trusted, so its parts are separate: code that runs without a Go runtime (initproc)
// does not depend on sandboxes, and code that serves the command's requests (mediate) does not depend on options and
// plans.
var launcherMayImport = map[string][]string{
	"":         {"launcher"},
	"initproc": {},
	"nofile":   {},
	"notify":   {},
	"mediate":  {"initproc", "notify", "pkg/sandbox/plan", "pkg/sandbox/transparent"},
	"broker":   {"notify", "pkg/sandbox/permissions", "pkg/sandbox/plan"},
	"launcher": {
		"broker", "initproc", "mediate", "nofile", "pkg/host/limiter", "pkg/host/warmstart", "pkg/wire/jsonwire",
		"pkg/sandbox", "pkg/sandbox/permissions", "pkg/sandbox/plan", "pkg/sandbox/placeholders", "pkg/sandbox/bwrap", "pkg/sandbox/proxybridge",
	},
}

// TestLauncherImportsWhatItMay checks the imports of the launcher's packages. Imports of tests do not count.
func TestLauncherImportsWhatItMay(t *testing.T) {
	const root, program = "codex.internal/", "cmd/codex-linux-sandbox"
	cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./...")
	cmd.Dir = repository + "/" + program
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("list the packages of %s: %v", program, err)
	}
	seen := make(map[string]bool)
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		name := strings.TrimPrefix(strings.TrimPrefix(words[0], root+program), "/")
		allowed, known := launcherMayImport[name]
		if !known && name != "escape" { // escape contains only tests
			t.Errorf("%s is not in launcherMayImport", words[0])
		}
		seen[name] = true
		for _, imported := range words[1:] {
			other, ours := strings.CutPrefix(imported, root)
			other = strings.TrimPrefix(other, program+"/")
			if ours && !slices.Contains(allowed, other) {
				t.Errorf("%s imports %s, which it must not", words[0], other)
			}
		}
	}
	for name := range launcherMayImport {
		if !seen[name] {
			t.Errorf("there is no package %q in %s", name, program)
		}
	}
}

// roomsMayImport maps groups to their subpackages, and each subpackage to those of its group that it may import.
var roomsMayImport = map[string]map[string][]string{
	// The server connects confine, detach, files, tunnels and statuspage, which import neither it nor each other. All report to observe.
	"execserver": {
		"":            {"confine", "detach", "environment", "files", "tunnels", "statuspage", "observe", "tracing", "reply", "share", "wsauth"},
		"confine":     {"observe", "wsauth"},
		"detach":      {"observe", "tracing", "share", "wsauth"},
		"environment": {"reply"},
		"files":       {"observe", "tracing", "reply", "share"},
		"tunnels":     {"observe", "share"},
		"statuspage":  {"observe", "wsauth"},
		"observe":     {"audit", "tracing"},
		"audit":       {},
		"reply":       {},
		"share":       {"observe"},
		"tracing":     {},
		"wsauth":      {},
	},
	// The code that makes a plan from a policy does not import the packages that carry the plan out
	// or clean up after it.
	"sandbox": {
		"":             {},
		"permissions":  {},
		"mountinfo":    {"permissions"},
		"plan":         {"permissions", "mountinfo"},
		"placeholders": {"plan"},
		"bwrap":        {"", "plan", "permissions", "mountinfo"},
		"proxybridge":  {},
		"transparent":  {},
		"egress":       {"transparent"},
		"winsandbox":   {},
		"runner":       {"", "plan", "permissions", "winsandbox"},
		"doctor":       {"plan", "permissions", "bwrap", "runner"},
	},
}

// TestRoomsImportWhatTheyMay checks which packages of a group import each other. Imports of tests
// do not count.
func TestRoomsImportWhatTheyMay(t *testing.T) {
	for group, rooms := range roomsMayImport {
		top := "codex.internal/pkg/" + group
		cmd := exec.Command("go", "list", "-f", `{{.ImportPath}}{{range .Imports}} {{.}}{{end}}`, "./"+group+"/...")
		cmd.Dir = repository + "/pkg"
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("list the packages of %s: %v", top, err)
		}
		room := func(path string) (string, bool) {
			rest, ok := strings.CutPrefix(path, top)
			return strings.TrimPrefix(rest, "/"), ok && (rest == "" || rest[0] == '/')
		}
		for line := range strings.Lines(string(out)) {
			words := strings.Fields(line)
			name, _ := room(words[0])
			allowed, known := rooms[name]
			if !known {
				t.Errorf("%s is not in roomsMayImport", words[0])
			}
			for _, imported := range words[1:] {
				if other, ok := room(imported); ok && !slices.Contains(allowed, other) {
					t.Errorf("%s imports %s, which it must not", words[0], imported)
				}
			}
		}
	}
}

// testPackages are packages without a test file name that only tests use, such as those that
// end-to-end tests import.
var testPackages = []string{"codex.internal/cmd/codex/e2e/harness"}

// TestGroupsImportWhatTheyMay checks the imports of every package. Imports of tests do not count.
// The commands may import all groups except testutil.
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
