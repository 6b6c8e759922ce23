package cli

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"github.com/urfave/cli/v2"
)

var (
	// optionRow matches a row of a table of options: names, default, meaning.
	optionRow = regexp.MustCompile("(?m)^\\| (`-[^|]*`) \\|([^|]*)\\|")
	// optionName matches an option in such a row.
	optionName = regexp.MustCompile("`--?([a-z0-9-]+)")
	heading    = regexp.MustCompile(`(?m)^#+ (.*)$`)
	codeSpan   = regexp.MustCompile("`([^`\n]+)`")
	// shownLine matches a line of an indented block that has a command: after a dollar sign, or a command of codex.
	shownLine = regexp.MustCompile(`^    (?:\$ (.*)|((?:(?:[A-Z_]+=\S+|sudo) )*codex .*))`)
	wordOfCLI = regexp.MustCompile(`^(?:bin/)?codex$`)
)

// optionsAt names the document and section with the options of a command, if that
// is not the section of docs/cli.md with the command's name.
var optionsAt = map[string][2]string{
	"codex remote":                  {"docs/cli.md", "Which server"},
	"codex rendezvous":              {"docs/rendezvous.md", "Options"},
	"codex rendezvous token create": {"docs/rendezvous.md", "Tokens"},
	"codex rendezvous token list":   {"docs/rendezvous.md", "Tokens"},
	"codex rendezvous token revoke": {"docs/rendezvous.md", "Tokens"},
	"codex login":                   {"docs/sign-in.md", "Commands"},
	"codex login status":            {"docs/sign-in.md", "Commands"},
	"codex logout":                  {"docs/sign-in.md", "Commands"},
}

// saidElsewhere are common options, which other documents describe.
var saidElsewhere = map[string][]string{
	"codex remote ": {"url", "ca", "client-cert", "client-key", "env", "verbose", "quiet"}, "codex login": {"config", "strict-config"}, "codex logout": {"config", "strict-config"},
}

// TestDocumentedOptions compares the tables of options with the program: their names, and their
// defaults unless the default is none or off.
func TestDocumentedOptions(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	walkCommands(app.Commands, nil, func(path []string) {
		command, name := commandAt(app.Commands, path), strings.Join(append([]string{"codex"}, path...), " ")
		at, elsewhere := optionsAt[name]
		if !elsewhere {
			at = [2]string{"docs/cli.md", name}
		}
		rows := options(sectionOf(t, at[0], at[1]))
		for _, flag := range command.VisibleFlags() {
			long := flag.Names()[0]
			if long == "help" || common(name, long) {
				continue
			}
			row, found := rows[long]
			if !found {
				t.Errorf("%s: section %q does not show --%s of %s", at[0], at[1], long, name)
				continue
			}
			if value := defaultOf(flag); value != "" && !strings.Contains(row, "`"+value+"`") {
				t.Errorf("%s: the default of --%s of %s is %s, not %s", at[0], long, name, value, row)
			}
		}
		if at[0] == "docs/cli.md" {
			for long := range rows {
				if flagNamed(command.Flags, long) == nil {
					t.Errorf("%s: %s has no --%s", at[0], name, long)
				}
			}
		}
	})
}

// TestDocumentedSections fails for a command without a section in the documents. The section has the command's name as
// its title, or optionsAt names it. A command that has only common options is in no table of options.
func TestDocumentedSections(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	walkCommands(app.Commands, nil, func(path []string) {
		name := strings.Join(append([]string{"codex"}, path...), " ")
		if c := commandAt(app.Commands, path); len(c.Subcommands) > 0 && len(c.VisibleFlags()) == 1 {
			return // it has only --help and subcommands, which are documented themselves
		}
		at, elsewhere := optionsAt[name]
		if !elsewhere {
			at = [2]string{"docs/cli.md", name}
		}
		switch section := sectionOf(t, at[0], at[1]); {
		case strings.TrimSpace(section) == "":
			t.Errorf("%s: got no section %q, want one", at[0], at[1])
		case elsewhere && !strings.Contains(strings.Join(strings.Fields(section), " "), name):
			t.Errorf("%s: section %q does not have %s, want a sentence or an example", at[0], at[1], name)
		}
	})
}

// common reports whether an option is common to many commands.
func common(command, flag string) bool {
	for prefix, flags := range saidElsewhere {
		if strings.HasPrefix(command, prefix) && slices.Contains(flags, flag) {
			return true
		}
	}
	return false
}

// options returns the default cells of the options in a text, by each name of the option.
func options(text string) map[string]string {
	rows := make(map[string]string)
	for _, m := range optionRow.FindAllStringSubmatch(text, -1) {
		for _, name := range optionName.FindAllStringSubmatch(m[1], -1) {
			rows[name[1]] = m[2]
		}
	}
	return rows
}

// defaultOf returns the default value of a flag; empty: none.
func defaultOf(flag cli.Flag) string {
	f, ok := flag.(cli.DocGenerationFlag)
	if _, isSwitch := flag.(*cli.BoolFlag); isSwitch || !ok {
		return ""
	}
	value := strings.Trim(f.GetValue(), `"`)            // an option that may be repeated quotes each value
	if value == "0" || value == "0s" || value == "[]" { // the usage explains these defaults
		return ""
	}
	return value
}

func flagNamed(flags []cli.Flag, name string) cli.Flag {
	for _, flag := range flags {
		if slices.Contains(flag.Names(), name) {
			return flag
		}
	}
	return nil
}

// sectionOf returns the part of a document from a heading to the next one. It returns an empty text
// if the heading does not exist.
func sectionOf(t *testing.T, document, title string) string {
	t.Helper()
	text := read(t, document)
	for _, m := range heading.FindAllStringSubmatchIndex(text, -1) {
		if text[m[2]:m[3]] != title {
			continue
		}
		rest := text[m[1]:]
		if next := heading.FindStringIndex(rest); next != nil {
			rest = rest[:next[0]]
		}
		return rest
	}
	return ""
}

// forReaders returns the names of the documents for readers. The specification is not among them,
// because TestSpecification checks it.
func forReaders(t *testing.T) []string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"docs/*.md", "docs/operations/*/*.md", "*.md"} {
		found, err := filepath.Glob(filepath.Join(repository, pattern))
		if err != nil || len(found) == 0 {
			t.Fatalf("no documents %s: %v", pattern, err)
		}
		for _, path := range found {
			name, err := filepath.Rel(repository, path)
			if err != nil {
				t.Fatal(err)
			}
			names = append(names, name)
		}
	}
	return names
}

// TestDocumentedCommands checks that the commands and options exist in each command line of codex
// that a document shows.
func TestDocumentedCommands(t *testing.T) {
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	seen := 0
	for _, name := range forReaders(t) {
		for _, line := range shownCommands(read(t, name)) {
			seen++
			if problem := wrongCommand(app, line); problem != "" {
				t.Errorf(`%s: got line %s, problem %s; want problem ""`, name, line, problem)
			}
		}
	}
	if seen < 50 {
		t.Errorf("there are %d command lines only", seen)
	}
	for line, wrong := range map[string]bool{
		"codex remote run --tty -- top --any": false, "codex remote --env box shell": false, "codex --version": false, "codex": false,
		"codex COMMAND --help": false, "codex exec-server --remote https://x --environment-id box": false, "codex remote cp -r a :b": false,
		"codex remote fly": true, "codex sandbox --read-write -- true": true, "codex remote run --shell -- x": true,
	} {
		if problem := wrongCommand(app, line); (problem != "") != wrong {
			t.Errorf(`%s: got %q, want problem != "": %v`, line, problem, wrong)
		}
	}
}

// shownCommands returns the command lines of codex that a document shows, from
// the name of the program to the end of the command.
func shownCommands(text string) (lines []string) {
	text = strings.ReplaceAll(text, "\\\n", " ")
	var shown []string
	for line := range strings.Lines(text) {
		if m := shownLine.FindStringSubmatch(line); m != nil {
			shown = append(shown, m[1]+m[2])
			continue
		}
		for _, m := range codeSpan.FindAllStringSubmatch(line, -1) {
			shown = append(shown, m[1])
		}
	}
	for _, command := range shown {
		words := strings.Fields(strings.NewReplacer(";", " ; ", ")", " ) ", `"`, " ").Replace(command))
		for i, word := range words {
			if !wordOfCLI.MatchString(word) {
				continue
			}
			end := slices.IndexFunc(words[i:], func(w string) bool { return slices.Contains([]string{"|", ";", ")", "&&", "--", "..."}, w) })
			if end < 0 {
				end = len(words) - i
			}
			lines = append(lines, strings.Join(words[i:i+end], " "))
			break
		}
	}
	return lines
}

// TestShownCommands checks which command lines are found in a document: the other test would report
// no mistakes in lines that it does not find.
func TestShownCommands(t *testing.T) {
	for text, want := range map[string][]string{
		"    $ codex remote ls /\n":              {"codex remote ls /"},
		"    codex audit show x\n":               {"codex audit show x"},
		"    sudo A=b codex remote run -- x\n":   {"codex remote run"},
		"`codex doctor` and `bin/codex version`": {"codex doctor", "bin/codex version"},
		"      codex in a picture\ncodex\n":      nil,
	} {
		if got := shownCommands(text); !slices.Equal(got, want) {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// wrongCommand describes the mistake in a command line. It returns an empty text if the line is right.
func wrongCommand(app *cli.App, line string) string {
	commands, flags := app.Commands, slices.Concat(app.Flags, []cli.Flag{cli.VersionFlag, helpOption(nil)})
	words := strings.Fields(line)[1:]
	for i := 0; i < len(words); i++ {
		word := words[i]
		if word == "--" {
			return ""
		}
		if option := strings.TrimLeft(word, "-"); option != word {
			option, _, valued := strings.Cut(option, "=")
			flag := flagNamed(flags, option)
			if flag == nil {
				return "there is no option " + word
			}
			if _, isSwitch := flag.(*cli.BoolFlag); !isSwitch && !valued {
				i++
			}
			continue
		}
		if len(commands) == 0 || word != strings.ToLower(word) {
			continue // arguments, and placeholders for them
		}
		command := (&cli.Command{Subcommands: commands}).Command(word)
		if command == nil {
			return fmt.Sprintf("there is no command %q", word)
		}
		commands, flags = command.Subcommands, append(flags, command.Flags...)
	}
	return ""
}

// TestDocumentLinks checks that the links between documents lead to existing documents and
// headings, and that each document in docs links to the glossary.
func TestDocumentLinks(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#: ]*)(#[^) ]*)?\)`)
	for _, name := range forReaders(t) {
		if filepath.Dir(name) == "docs" && name != "docs/glossary.md" && !strings.Contains(read(t, name), "](glossary.md)") {
			t.Errorf("%s does not lead to the glossary", name)
		}
		for _, m := range link.FindAllStringSubmatch(read(t, name), -1) {
			target := filepath.Join(filepath.Dir(name), m[1])
			if m[1] == "" {
				target = name
			}
			exists(t, target)
			if m[2] != "" && !slices.Contains(anchors(read(t, target)), m[2]) {
				t.Errorf("%s: %s has no heading for %s", name, target, m[2])
			}
		}
	}
}

// anchors returns the anchors of a document's headings.
func anchors(text string) (list []string) {
	drop := regexp.MustCompile("[^a-z0-9 _-]")
	for _, m := range heading.FindAllStringSubmatch(text, -1) {
		list = append(list, "#"+strings.ReplaceAll(drop.ReplaceAllString(strings.ToLower(m[1]), ""), " ", "-"))
	}
	return list
}

// TestDocumentedNames compares the tables of names with the source: both must have the same names.
func TestDocumentedNames(t *testing.T) {
	for _, tt := range []struct {
		what             string
		sources          []string
		source           string // finds a name in the source, with its first group
		document, title  string
		cell             string // finds a name in the document
		leftOut, outside []string
		others           bool // the document also has other words of this form
	}{
		{
			what: "methods and notifications", sources: []string{"pkg/execproto/methods.go"}, source: `(?:Method|Notify)\w+ += "([a-zA-Z/]+)"`,
			document: "docs/protocol.md", title: "Methods", cell: "`((?:process|fs|http|tunnel|network|environment|environmentConfig|capabilityRoots)/[a-zA-Z/]+|initialized?)`",
		},
		{
			what: "error codes", sources: []string{"pkg/execproto/methods.go"}, source: `Code\w+ += (-\d+)`,
			document: "docs/protocol.md", title: "Error codes", cell: `(?m)^\| (-\d+) \|`,
		},
		{
			what: "error codes of the specification", sources: []string{"pkg/execproto/methods.go"}, source: `Code\w+ += (-\d+)`,
			document: "docs/spec/wire.md", title: "2.2 Error codes", cell: `(?m)^\| (-\d+) \|`,
		},
		{
			what: "error codes of the rendezvous service", sources: []string{"pkg/rendezvous"}, source: `apiError\{[a-zA-Z.]+, "([a-z_]+)"`,
			document: "docs/rendezvous.md", title: "Errors of the service", cell: "`([a-z]+(?:_[a-z]+)*)`", outside: []string{"error"},
		},
		{
			what: "events of --json", sources: []string{"cmd/codex/cli/remote"}, source: `Type: +"([a-z]+)"`,
			document: "docs/cli.md", title: "codex remote exec", cell: "(?m)^\\| `([a-z]+)` \\| ", outside: []string{"always", "never"},
		},
		{
			what: "members of events", sources: []string{"cmd/codex/cli/remote/report.go"}, source: `json:"([a-zA-Z0-9]+)`,
			document: "docs/cli.md", title: "codex remote exec", cell: "`([a-zA-Z0-9]+)`", others: true,
		},
		{
			what: "members of codex doctor --json", sources: []string{"pkg/sandbox/doctor/doctor.go"}, source: `json:"([a-zA-Z]+)`,
			document: "docs/cli.md", title: "codex doctor", cell: `([a-zA-Z]+)`, others: true,
		},
		{
			what: "exit codes", sources: []string{"cmd/codex/cli/cmdutil/errors.go"}, source: `Exit[A-Z]\w+ += (\d+)`,
			document: "docs/cli.md", title: "Exit codes", cell: `(?m)^\| (\d+) \|`, outside: []string{"0"},
		},
		{
			what: "metrics", sources: []string{"pkg/rendezvous", "pkg/rendezvous/natsbus"}, source: `(rendezvous_[a-z_]+[a-z])\b`,
			document: "docs/operations.md", title: "Metrics of a rendezvous service", cell: "`(rendezvous_[a-z_]+)`",
		},
		{
			what: "metrics of a server", sources: []string{"pkg/execserver"}, source: `(exec_server_[a-z_]+[a-z])\b`,
			document: "docs/operations.md", title: "Metrics of a server", cell: "`(exec_server_[a-z_]+)`",
		},
		{
			what: "metrics of programs", sources: []string{"pkg/internal/metrics"}, source: `"((?:go|process|codex)_[a-z_]+[a-z])"`,
			document: "docs/operations.md", title: "Metrics of a server", cell: "`((?:go|process|codex)_[a-z_]+)`",
		},
		{
			what: "variables", sources: []string{"cmd/codex/cli", "pkg"}, source: `"(CODEX_[A-Z_]+)"`,
			document: "docs/configuration.md", title: "Variables", cell: "`(CODEX_[A-Z_]+)`",
			// Left out: variables of Codex CLI, named to tell them from others; of Windows hosts and tests; that between launcher and helper.
			leftOut: []string{"CODEX_TEST_ALL", "CODEX_FS_DENIED", "CODEX_CONNECTORS_TOKEN", "CODEX_GUARDIAN_DECISIONS_API_KEY", "CODEX_NETWORK_ALLOW_LOCAL_BINDING", "CODEX_WINDOWS_SANDBOX_PROXY_PORTS"},
		},
	} {
		has, shown := make(map[string]bool), make(map[string]bool)
		for _, source := range tt.sources {
			for name := range matches(tt.source, sourceText(t, source)) {
				has[name] = !slices.Contains(tt.leftOut, name)
			}
		}
		maps.Copy(shown, matches(tt.cell, sectionOf(t, tt.document, tt.title)))
		for name, wanted := range has {
			if wanted && !shown[name] {
				t.Errorf("%s: %s does not show %s", tt.what, tt.document, name)
			}
		}
		for name := range shown {
			if !has[name] && !tt.others && !slices.Contains(tt.outside, name) {
				t.Errorf("%s: %s shows %s, which the source does not have", tt.what, tt.document, name)
			}
		}
		if len(has) == 0 || len(shown) == 0 {
			t.Errorf("%s: found %d in the source, %d in the document", tt.what, len(has), len(shown))
		}
	}
}

// TestDocumentedAuditEvents compares the table of events with the program. It fails for a kind of event that no
// code writes or that no test checks.
func TestDocumentedAuditEvents(t *testing.T) {
	const document, declared = "docs/operations.md", "pkg/execserver/audit/record.go"
	documented := make(map[string]bool)
	for _, row := range regexp.MustCompile("(?m)^\\| (`[a-z]+\\.[^|]*) \\|").FindAllStringSubmatch(sectionOf(t, document, "Audit trail"), -1) {
		maps.Copy(documented, matches("`([^`]+)`", row[1]))
	}
	code := strings.ReplaceAll(sourceText(t, "pkg/execserver"), sourceText(t, declared), "")
	tests := testText(t, "pkg/execserver") + testText(t, "cmd/codex/e2e/cli")
	kinds := regexp.MustCompile(`(?m)^\s+(Event\w+) += "([a-z._]+)"`).FindAllStringSubmatch(sourceText(t, declared), -1)
	for _, m := range kinds {
		name, kind := m[1], m[2]
		constant := regexp.MustCompile(`\b` + name + `\b`)
		if !documented[kind] {
			t.Errorf("%s, Audit trail: got no row for the event %s, want one", document, kind)
		}
		if !constant.MatchString(code) {
			t.Errorf("%s: got no code that writes an event of kind %s (%s), want some in pkg/execserver", declared, kind, name)
		}
		if !constant.MatchString(tests) && !strings.Contains(tests, `"`+kind+`"`) {
			t.Errorf("%s: got no test that looks for an event of kind %s (%s), want one, such as TestAuditKinds of cmd/codex/e2e/cli", declared, kind, name)
		}
		delete(documented, kind)
	}
	for kind := range documented {
		t.Errorf("%s, Audit trail: got a row for the event %s, which %s does not have", document, kind, declared)
	}
	if len(kinds) < 15 {
		t.Errorf("got %d kinds of events in %s, want at least 15", len(kinds), declared)
	}
}

// TestSpecifiedNames checks that the specification names each method and notification of the
// protocol, and each member of the protocol's message types.
func TestSpecifiedNames(t *testing.T) {
	names, err := filepath.Glob(filepath.Join(repository, "docs/spec/*.md"))
	if err != nil || len(names) == 0 {
		t.Fatalf("no specification: %v", err)
	}
	text := ""
	for _, name := range names {
		text += read(t, filepath.Join("docs/spec", filepath.Base(name)))
	}
	methods := matches(`(?:Method|Notify)\w+ += "([a-zA-Z0-9/]+)"`, sourceText(t, "pkg/execproto/methods.go"))
	members := matches(`\((?:c, )?"([a-zA-Z0-9]+)", (?:need|orNull|omit|0)`, sourceText(t, "pkg/execproto"))
	if len(methods) < 30 || len(members) < 100 {
		t.Errorf("found %d methods and %d members", len(methods), len(members))
	}
	maps.Copy(methods, members)
	words := matches(`([a-zA-Z0-9/]+)`, text) // search all documents at once: a pattern for each name would take seconds
	for name := range methods {
		if !words[name] {
			t.Errorf("docs/spec does not have %s", name)
		}
	}
}

// matches returns the first groups of all matches.
func matches(pattern, text string) map[string]bool {
	found := make(map[string]bool)
	for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(text, -1) {
		found[m[1]] = true
	}
	return found
}

// sourceText returns the text of the Go files below a directory, without tests. name may also be one file.
func sourceText(t *testing.T, name string) string { return goText(t, name, false) }

// testText returns the text of the tests in a directory and below it.
func testText(t *testing.T, name string) string { return goText(t, name, true) }

func goText(t *testing.T, name string, tests bool) string {
	t.Helper()
	var b strings.Builder
	err := filepath.WalkDir(filepath.Join(repository, name), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") != tests {
			return err
		}
		text, err := os.ReadFile(path)
		b.Write(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestDocumentedPaths checks that the files, packages and tests that documents name
// exist.
func TestDocumentedPaths(t *testing.T) {
	path := regexp.MustCompile(`^(?:pkg|cmd|scripts|docs|proto|\.ci)/[a-zA-Z0-9_./-]*$`)
	for _, name := range forReaders(t) {
		for _, m := range citedTest.FindAllStringSubmatch(read(t, name), -1) {
			if !hasTest(t, m[1], m[2]) {
				t.Errorf("%s: %s has no %s", name, m[1], m[2])
			}
		}
		for _, m := range codeSpan.FindAllStringSubmatch(read(t, name), -1) {
			words := strings.Fields(m[1])
			if name == "CHANGELOG.md" || len(words) == 0 || !path.MatchString(strings.TrimSuffix(words[0], ":")) {
				continue // the changelog may mention removed files
			}
			exists(t, strings.TrimSuffix(words[0], ":"))
		}
	}
}

// TestReadmeIsShort limits the length of the README: it is for newcomers, and everything else belongs in docs.
func TestReadmeIsShort(t *testing.T) {
	const most = 200
	if n := strings.Count(read(t, "README.md"), "\n"); n > most {
		t.Errorf("README.md has %d lines, at most %d are allowed", n, most)
	}
}
