package cli

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/e2e/harness"
	"github.com/creack/pty"
)

// checkout is the path of the repository with the tested documents.
const checkout = harness.Repository

// documents are the documents whose commands are run, in order. Each document has
// its own server and home directory. In other documents, only the names of
// commands and options are checked: see TestDocumentedCommands in the package cli.
var documents = []string{"README.md", "docs/getting-started.md", "docs/sign-in.md"}

// notRun are commands that a test cannot run, with the reasons.
var notRun = map[string]string{
	"scripts/run":     "it builds into the repository and uses a fixed port; the commands are run on a server of the test, built in the same way",
	"scripts/install": "it builds everything again: scripts/check installs",
	"scripts/install /usr/local --name codex-go":                                    "it needs root: scripts/check installs under another name",
	"bin/codex remote run --tty -- top":                                             "it runs until it is ended: see TestRemoteRunOnATerminal",
	"bin/codex remote shell":                                                        "it is the shell of the user who runs the test: see TestRemoteRunOnATerminal",
	"bin/codex doctor":                                                              "the answer depends on the machine: see TestDoctorForPeople",
	"bin/codex remote --env build run -- make test":                                 "it needs a machine named build: see TestEnvironments",
	"CODEX_EXEC_SERVER_URL=ws://127.0.0.1:8765 codex":                               "it is OpenAI's program and needs a model: scripts/interop uses it",
	"bin/codex exec-server --remote https://meet.example:8766 --environment-id box": "it needs another machine: see TestRendezvousWithTLS",
	"bin/codex remote --env box shell":                                              "it needs another machine: see TestRendezvousWithTLS",
}

// notRunIn are the other documents that show command lines, with the reasons why
// these cannot be run. Their commands and options are still checked: see documents.
var notRunIn = map[string]string{
	"docs/configuration.md": "it needs a machine named build: see TestEnvironments",
	"docs/embedding.md":     "it downloads modules: the examples of the packages execclient and execserver are run",
	"docs/network.md":       "it needs certificates for an address of the machine: see TestTLS",
	"docs/rendezvous.md":    "it needs three machines, a name and NATS: see TestRendezvousWithTLS and TestRendezvousNodes",
}

// notMarked are command lines without a dollar sign and an answer, with the reasons
// why they are not run.
var notMarked = map[string]string{
	"scripts/run":                     notRun["scripts/run"],
	"scripts/test":                    "it is what runs this test: scripts/check tests it",
	"scripts/test --quick":            "it is what runs this test: scripts/check tests it",
	"scripts/test --race":             "it is what runs this test: scripts/check tests it",
	".ci/run":                         "it runs this test",
	"source <(codex completion bash)": "it changes the shell: see TestCompletionInShells",
	"codex man remote | man -l -":     "it needs man: see TestManPages",
	"curl -H 'Accept: application/json' http://127.0.0.1:8765/status":                                                                         "it uses a fixed port: see TestServerStatusPage",
	"OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:4318 codex exec-server":                                                                     "it uses a fixed port: see TestTraces",
	"mkdir -p -m 700 ~/.codex/secrets":                                                                                                        "it writes into the home of the user: see TestCredentialsStayOutside",
	"(umask 077; cat > ~/.codex/secrets/github-api)":                                                                                          "it reads a secret of the user: see TestCredentialsStayOutside",
	"(umask 077; cat > ~/.codex/secrets/github-git)":                                                                                          "it reads a secret of the user: see TestCredentialsStayOutside",
	"codex exec-server token create --role run --cwd /srv/project --expires 24h":                                                              "it needs that directory: see TestRoles",
	"codex exec-server token create --role read --principal ci":                                                                               "it writes into the home of the user: see TestRoles",
	"scripts/release 1.2.3 --out /var/tmp/codex-1.2.3":                                                                                        "it builds for six kinds of machines: .ci/run makes a release, twice",
	"sudo dpkg -i /var/tmp/codex-1.2.3/codex-exec-server_1.2.3_amd64.deb":                                                                     "it installs a package: scripts/services does in a guest",
	"skopeo copy --all oci:codex-exec-server-1.2.3-oci:1.2.3 docker://registry.example/codex-exec-server:1.2.3":                               "it needs a registry: .ci/run copies the image to a directory",
	"go test ./cmd/codex/cli -run 'Document|Citations|Specification'":                                                                         "it runs tests, as scripts/test does",
	"go test ./cmd/codex/e2e/cli -run TestDocuments":                                                                                          "it is this test",
	"codex rendezvous token create --tokens tokens.json --role executor --environment 'workspace-*' --environment application > agents.token": neededByManifests,
	"codex rendezvous token create --tokens tokens.json --role executor --environment 'team-*' > team.token":                                  neededByManifests,
	"codex rendezvous token create --tokens tokens.json --role run --environment 'team-*' --name ada > ada.token":                             neededByManifests,
	"kubectl create namespace codex":                                                                                                          neededByManifests,
	"kubectl -n codex create secret generic rendezvous-tokens --from-file=tokens.json":                                                        neededByManifests,
	"kubectl -n codex create secret generic rendezvous-nats --from-file=user.creds --from-file=ca.crt=nats-ca.crt":                            neededByManifests,
	"kubectl -n codex create secret generic rendezvous-tls --from-file=tls.crt --from-file=tls.key":                                           neededByManifests,
	"kubectl apply -k rendezvous":                                                                                                             neededByManifests,
	"kubectl create namespace team":                                                                                                           neededByManifests,
	"kubectl -n team create secret generic executor --from-file=token=team.token":                                                             neededByManifests,
	"kubectl -n team create configmap rendezvous-ca --from-file=ca.crt":                                                                       neededByManifests,
	"kubectl apply -k team": neededByManifests,
	"kubectl -n team rollout status statefulset/team-workspace": neededByManifests,
}

const neededByManifests = "it is for a cluster: scripts/manifests compares what it makes with the manifests, and runs their pods"

// runElsewhere are sections whose commands a script runs. The script reads them from the document.
var runElsewhere = map[string]string{"### From the package to a first command": "scripts/package_suite.py"}

// unmarked finds a command line without a dollar sign in an indented block.
var unmarked = regexp.MustCompile(`(?m)^    ((?:[A-Z_]+=\S+ |sudo )*` +
	`(?:source |go [a-z]+ |codex |bin/|scripts/|\.ci/|\./|curl |dpkg |export |kubectl |mkdir |printf |skopeo |systemctl |\(umask |[a-z]+\(\) ).*)$`)

// TestDocumentsAreListed: each document with command lines is run, or is listed with a reason. If a
// reason names a test, the test exists.
func TestDocumentsAreListed(t *testing.T) {
	var names []string
	for _, pattern := range []string{"docs/*.md", "docs/operations/*/*.md", "*.md"} {
		found, err := filepath.Glob(filepath.Join(checkout, pattern))
		harness.Must(t, err)
		names = append(names, found...)
	}
	unused, unusedLines := maps.Clone(notRunIn), maps.Clone(notMarked)
	for _, name := range names {
		text, err := os.ReadFile(name)
		harness.Must(t, err)
		name, err = filepath.Rel(checkout, name)
		harness.Must(t, err)
		for _, line := range commandsWithoutPrompt(notRunElsewhere(t, string(text))) {
			if _, listed := notMarked[line]; !listed {
				t.Errorf("%s shows %q: show it behind a dollar sign, so that it is run, or say why it cannot be", name, line)
			}
			delete(unusedLines, line)
		}
		shows := len(documented(string(text))) > 0
		if _, listed := notRunIn[name]; shows && !listed && !slices.Contains(documents, name) {
			t.Errorf("%s shows command lines: run them, or say why they cannot be", name)
		} else if shows {
			delete(unused, name)
		}
	}
	for name := range unused {
		t.Errorf("%s shows no command line: take it out of the list", name)
	}
	for line := range unusedLines {
		t.Errorf("no document shows %q: take it out of the list", line)
	}
	tests := ""
	files, err := filepath.Glob(filepath.Join("..", "*", "*_test.go"))
	harness.Must(t, err)
	more, err := filepath.Glob(filepath.Join("..", "..", "cli", "*_test.go"))
	harness.Must(t, err)
	for _, file := range append(files, more...) {
		text, err := os.ReadFile(file)
		harness.Must(t, err)
		tests += string(text)
	}
	for _, reason := range slices.Concat(slices.Collect(maps.Values(notRun)), slices.Collect(maps.Values(notRunIn)), slices.Collect(maps.Values(notMarked))) {
		for _, name := range regexp.MustCompile(`\bTest[A-Z]\w+`).FindAllString(reason, -1) {
			if !strings.Contains(tests, "\nfunc "+name+"(") {
				t.Errorf("%q: there is no %s", reason, name)
			}
		}
	}
}

// TestDocuments runs the commands of documents and compares the output with the document, so that a
// newcomer sees the promised output. A line of dots in a document stands for any lines.
func TestDocuments(t *testing.T) {
	harness.NeedSandbox(t)
	unused := maps.Clone(notRun)
	for _, name := range documents {
		t.Run(name, func(t *testing.T) {
			text, err := os.ReadFile(filepath.Join(checkout, name))
			harness.Must(t, err)
			r := newReader(t)
			commands := documented(string(text))
			for _, c := range commands {
				if _, not := notRun[c.line]; not {
					delete(unused, c.line)
					continue
				}
				r.try(c)
			}
			if len(commands) == 0 {
				t.Error("the document shows no command")
			}
		})
	}
	for line := range unused {
		t.Errorf("no document shows %s: take it out of the list", line)
	}
}

// notRunElsewhere returns a document without the sections of runElsewhere. It checks that the
// script names the heading.
func notRunElsewhere(t *testing.T, text string) string {
	t.Helper()
	for title, script := range runElsewhere {
		before, section, found := strings.Cut(text, "\n"+title+"\n")
		if !found {
			continue
		}
		reads, err := os.ReadFile(filepath.Join(checkout, script))
		harness.Must(t, err)
		if !strings.Contains(string(reads), title) {
			t.Errorf("%s does not read the section %q", script, title)
		}
		if end := strings.Index(section, "\n#"); end >= 0 {
			before += section[end:]
		}
		text = before
	}
	return text
}

// commandsWithoutPrompt returns the command lines of indented blocks that have no dollar sign,
// without comments.
func commandsWithoutPrompt(text string) (lines []string) {
	for _, m := range unmarked.FindAllStringSubmatch(text, -1) {
		line, _, _ := strings.Cut(m[1], " #")
		lines = append(lines, strings.TrimRight(line, " "))
	}
	return lines
}

// example is a command line of a document, with the output lines that the document shows below it.
type example struct {
	line string
	want []string
}

// documented returns the commands of a document, which are in its indented blocks after a dollar
// sign.
func documented(text string) (list []example) {
	inside := false
	for line := range strings.Lines(text) {
		shown, indented := strings.CutPrefix(strings.TrimRight(line, "\n"), "    ")
		command, typed := strings.CutPrefix(shown, "$ ")
		switch {
		case indented && typed:
			list = append(list, example{line: command})
			inside = true
		case !indented && shown != "":
			inside = false
		case inside:
			last := &list[len(list)-1]
			last.want = append(last.want, shown)
		}
	}
	return list
}

// reader acts as a person who types the commands of a document.
type reader struct {
	t      *testing.T
	dir    string            // the directory of the checkout
	env    []string          // environment of its shell
	before []string          // earlier lines that change the shell, and so apply to all later lines
	places map[string]string // maps names in the document to names of this test
}

func newReader(t *testing.T) *reader {
	t.Helper()
	_, beside := harness.Places(t)
	_, url := harness.Server(t)
	r := &reader{t: t, dir: filepath.Join(beside, "checkout")}
	home := filepath.Join(beside, "home")
	harness.Must(t, os.MkdirAll(filepath.Join(home, ".codex"), 0o755))
	harness.Must(t, os.MkdirAll(filepath.Join(r.dir, "bin"), 0o755))
	harness.Must(t, os.Symlink(harness.Codex, filepath.Join(r.dir, "bin/codex")))
	harness.Must(t, os.CopyFS(filepath.Join(r.dir, "docs"), os.DirFS(filepath.Join(checkout, "docs"))))
	text, err := os.ReadFile(filepath.Join(checkout, "README.md"))
	harness.Must(t, err)
	harness.Must(t, os.WriteFile(filepath.Join(r.dir, "README.md"), text, 0o644))
	r.places = map[string]string{
		"ws://127.0.0.1:8765": url, "/src/codex": r.dir, "/root/": home + "/",
		"/var/tmp/demo": filepath.Join(beside, "demo"), "/var/tmp/tour": filepath.Join(beside, "tour"),
	}
	r.env = []string{"HOME=" + home, "PATH=" + filepath.Join(r.dir, "bin") + ":" + os.Getenv("PATH"), "LC_ALL=C", "TERM=xterm", "SHELL=/bin/bash", "OPENAI_API_KEY=sk-proj-0123456789ABCDE"}
	return r
}

// here replaces the names of the document in a text by the names of this test.
func (r *reader) here(text string) string {
	for _, there := range slices.Sorted(maps.Keys(r.places)) {
		text = strings.ReplaceAll(text, there, r.places[there])
	}
	return text
}

// changesShell matches commands that change the shell itself.
var changesShell = regexp.MustCompile(`^(export|unset|source|cd) `)

// shownFile matches a command that shows a file which the reader must write.
var shownFile = regexp.MustCompile(`^cat ~/(\S+)$`)

// asks matches a line in which the program asks a question and the reader types the answer.
var asks = regexp.MustCompile(`^(.*(?:\[n\] no   > |\((?:read-only|workspace-write)\)> ))(.+)$`)

// try runs a command on a terminal, types the document's input, and compares the output.
func (r *reader) try(c example) {
	r.t.Helper()
	line := r.here(c.line)
	if changesShell.MatchString(line) {
		r.before = append(r.before, line)
	}
	for len(c.want) > 0 && c.want[len(c.want)-1] == "" {
		c.want = c.want[:len(c.want)-1]
	}
	if m := shownFile.FindStringSubmatch(line); m != nil {
		home := strings.TrimPrefix(r.env[0], "HOME=")
		harness.Must(r.t, os.WriteFile(filepath.Join(home, m[1]), []byte(r.here(strings.Join(c.want, "\n"))+"\n"), 0o644))
	}
	cmd := exec.Command("bash", "--norc", "--noprofile", "-c", strings.Join(append(slices.Clone(r.before), line), "\n"))
	cmd.Dir, cmd.Env = r.dir, r.env
	tty, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: screenRows, Cols: screenColumns})
	harness.Must(r.t, err)
	u := &harness.User{T: r.t, Cmd: cmd, TTY: tty, Stop: time.AfterFunc(harness.Patience, func() { _ = cmd.Process.Kill() })}
	seen := ""
	for _, want := range c.want {
		if m := asks.FindStringSubmatch(want); m != nil {
			seen += u.UpTo(r.here(m[1]))
			u.Types(m[2] + "\r")
		}
	}
	rest, _ := u.End()
	u.Stop.Stop()
	_ = tty.Close()
	if problem := differs(r.here(strings.Join(c.want, "\n")), readable(seen+rest)); problem != "" {
		r.t.Errorf("got c.line %s, problem:\n%s\nwant problem \"\"", c.line, problem)
	}
}

// The terminal is so wide that no line is broken.
const screenRows, screenColumns = 60, 250

// controls matches sequences that control a terminal and show no text.
var controls = regexp.MustCompile(`\x1b(\[[0-?]*[ -/]*[@-~]|[\]PX^_][^\x07\x1b]*(\x07|\x1b\\)|[ -/]*[0-~])|[\x00-\x08\x0b-\x0c\x0e-\x1f]`)

// readable returns the text that a person has seen who watched the terminal all the time, including
// text that has left the screen. For a line that was overwritten, such as a progress bar, it
// returns the last state.
func readable(seen string) string {
	var b strings.Builder
	for line := range strings.Lines(controls.ReplaceAllString(seen, "")) {
		line = strings.TrimRight(line, "\r\n")
		fmt.Fprintln(&b, line[strings.LastIndexByte(line, '\r')+1:])
	}
	return b.String()
}

// different matches text that differs from one run to the next, or from one machine to another.
var different = []struct {
	what *regexp.Regexp
	name string
}{
	{regexp.MustCompile(`\b[0-9]+(\.[0-9]+)?m?s\b`), "TIME"},
	{regexp.MustCompile(`\bdevel(-\S+)?`), "VERSION"},
	{regexp.MustCompile(`^(session +)\S+`), "${1}ID"},
	{regexp.MustCompile(`^(home +)\S+`), "${1}HOME"},
	{regexp.MustCompile(`^(shell +).*`), "${1}SHELL"},
	{regexp.MustCompile(`^( *command: )\S+/\S+ -c`), "${1}SHELL -c"},
	{regexp.MustCompile(`^(directory +)\S+`), "${1}DIRECTORY"},
	{regexp.MustCompile(`={10,}`), "="},
	{regexp.MustCompile(`\s+`), " "},
}

// differs returns the first line in which a screen differs from a document. It returns an empty
// text if they agree.
func differs(want, got string) string {
	plain := func(text string) (lines []string) {
		for line := range strings.Lines(text) {
			for _, d := range different {
				line = d.what.ReplaceAllString(line, d.name)
			}
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return lines
	}
	wanted, found := plain(want), plain(got)
	i := 0
	for w := 0; w < len(wanted); w++ {
		if wanted[w] == "..." {
			if w == len(wanted)-1 {
				return ""
			}
			for i < len(found) && found[i] != wanted[w+1] {
				i++
			}
			continue
		}
		if i >= len(found) || found[i] != wanted[w] {
			return fmt.Sprintf("the document shows %q, which is not line %d of\n%s", wanted[w], i+1, got)
		}
		i++
	}
	if i < len(found) {
		return fmt.Sprintf("the document does not show %q of\n%s", found[i], got)
	}
	return ""
}

// TestDocumentsDiffer checks the comparison itself: no other test would notice a comparison that
// always succeeds.
func TestDocumentsDiffer(t *testing.T) {
	for _, tt := range []struct {
		want, got string
		same      bool
	}{
		{"a\nb", "a\n\nb\n", true},
		{"a\n...\nd", "a\nb\nc\nd", true},
		{"a\n...", "a\nb", true},
		{"took 3 ms, 1.5s", "took 3 ms, 20ms", true},
		{"a\nb", "a", false},
		{"a", "a\nb", false},
		{"a\n...\nd", "a\nb\nc", false},
		{"a", "b", false},
	} {
		if problem := differs(tt.want, tt.got); (problem == "") != tt.same {
			t.Errorf(`%q, %q: got %q, want problem == "": %v`, tt.want, tt.got, problem, tt.same)
		}
	}
	if got := commandsWithoutPrompt("    codex: no\n    codex yes\n    $ codex no\n    scripts/test  # all\ncodex no\n"); !slices.Equal(got, []string{"codex yes", "scripts/test"}) {
		t.Errorf(`got %q, want []string{"codex yes", "scripts/test"}`, got)
	}
	got := documented("$ no\n\n    $ a \\\n    b\n\n    c\n\ntext\n    $ d\n")
	if len(got) != 2 || got[0].line != `a \` || got[1].line != "d" || len(got[1].want) != 0 {
		t.Errorf(`got %q; want len(got) 2, got[0].line %q, got[1].line "d", len(got[1].want) 0`, got, `a \`)
	}
}
