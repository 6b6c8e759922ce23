package cli

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"codex.internal/cmd/codex/cli/cmdutil"
)

// documentedLimits describes the tables of limits. The key of a row is the text of its cells
// except the last one. The value lists the constants whose values are in the last cell, in
// this order. Words for a fraction, such as "a quarter", are not checked.
var documentedLimits = []struct {
	document, title string
	rows            map[string][]string
}{
	{"docs/spec/wire.md", "10 Limits", map[string][]string{
		"message of a client, websocket":              {"pkg/wire/websocket.DefaultMaxMessage"},
		"line of a client, stdio":                     {"pkg/wire/websocket.DefaultMaxLine"},
		"request before the upgrade":                  {"pkg/wire/websocket.requestTime", "pkg/wire/websocket.headerBytes"},
		"connections before the upgrade":              {"pkg/execserver.maxWaiting"},
		"connections":                                 {"pkg/execserver.DefaultMaxConnections"},
		"processes of a session that have not closed": {"pkg/execserver.DefaultMaxProcesses"},
		"`processId`":                                 {"pkg/execserver.maxProcessID"},
		"file handles of a connection":                {"pkg/execserver.DefaultMaxHandles"},
		"atomic writes of a session":                  {"pkg/execserver.DefaultMaxHandles"},
		"`handleId`":                                  {"pkg/execproto.MaxHandleIDBytes"},
		"watches of a connection; inotify instances for those of all connections": {"pkg/execserver/files.maxWatches", "pkg/execserver/files.MaxServerWatches"},
		"directories of a watch":                      {"pkg/host/watch.MaxTreeDirectories"},
		"file of `fs/readFile`":                       {"pkg/host/files.MaxReadFile"},
		"block of `fs/readBlock`, `fs/writeBlock`":    {"pkg/execproto.MaxBlockBytes"},
		"archives of a connection":                    {"pkg/execproto.MaxArchives"},
		"`paths` and `exclude` of an archive":         {"pkg/execproto.MaxArchivePaths", "pkg/execproto.MaxArchivePatterns"},
		"path of an entry of an archive, parts of it": {"pkg/fileop/archive.MaxPath", "pkg/fileop/archive.MaxDepth"},
		"entries of an archive":                       {"pkg/fileop/archive.MaxEntries"},
		"names of a directory that are listed":        {"pkg/host/files.maxNames"},

		"requests whose system calls about files are made at a time": {"pkg/execserver/files.MaxFileCalls"},

		"output chunk":                     {"pkg/host/process.MaxChunk"},
		"retained output":                  {"pkg/host/process.MaxRetained"},
		"held input":                       {"pkg/host/process.maxHeldInput"},
		"remembered `writeId`s":            {"pkg/host/process.rememberedWrites"},
		"detached processes of an owner":   {"pkg/execserver.DefaultMaxDetached"},
		"detached processes of all owners": {"pkg/execserver/detach.maxKeepers"},
		"output of detached processes":     {"pkg/execserver.DefaultRetainBytes"},
		"record of a detached process":     {"pkg/execserver/detach.maxRecord"},
		"handle of a detached process":     {"pkg/execproto.MaxHandleName"},
		"`waitMs`, `timeoutMs`":            {"pkg/execproto.MaxWait"},
		"path in a request":                {"pkg/wire/pathuri.MaxLength"},

		"tunnels of a session":                                       {"pkg/execserver/tunnels.maxTunnels"},
		"listeners of a session":                                     {"pkg/execserver/tunnels.maxListeners"},
		"window of a tunnel, in each direction":                      {"pkg/wire/tunnel.Window"},
		"windows of a session's tunnels together, in each direction": {"pkg/execserver/tunnels.maxBytes"},
		"least window of a tunnel, from the client; to the client":   {"pkg/wire/tunnel.LeastIn", "pkg/wire/tunnel.LeastOut"},
		"data of one `tunnel/data` that an end of ours sends":        {"pkg/wire/tunnel.MaxData"},
		"connections of a session's tunnels that are being made":     {"pkg/execserver/tunnels.maxDials"},
		"time to connect":                                            {"pkg/execserver/tunnels.dialTime"},
		"`host` of a tunnel":                                         {"pkg/execserver/tunnels.maxHost"},
		"processes in which ports are looked for":                    {"pkg/execserver/tunnels.maxPortProcesses"},
		"descriptors of one of them; of all together":                {"pkg/sandbox/runner.maxProcessFiles", "pkg/sandbox/runner.maxFiles"},
		"ports of one process; of one `tunnel/ports`":                {"pkg/sandbox/runner.maxListeners", "pkg/execserver/tunnels.maxPorts"},
	}},
	{"docs/spec/sandbox.md", "1.5 Limits", map[string][]string{
		"entries of a profile":                                    {"pkg/sandbox/permissions.maxEntries"},
		"entries after `project_roots` were replaced":             {"pkg/sandbox/permissions.maxExpanded"},
		"workspace roots, writable roots of a legacy policy":      {"pkg/sandbox/permissions.maxRoots"},
		"path or pattern":                                         {"pkg/sandbox/permissions.maxPath"},
		"alternatives of the braces of a pattern":                 {"pkg/sandbox/permissions.maxAlternatives"},
		"matches of all patterns":                                 {"pkg/sandbox/permissions.maxMatches"},
		"directory entries that the patterns of a policy look at": {"pkg/sandbox/permissions.maxVisited", "pkg/sandbox/permissions.maxVisitedFromRoot"},
	}},
	{"docs/spec/relay.md", "9.4 Limits", map[string][]string{
		"the service | websockets; environments":                               {"pkg/rendezvous.maxSockets", "pkg/rendezvous.MaxEnvironments"},
		"a token | environments; websockets; streams":                          {"pkg/rendezvous.TokenEnvironments", "pkg/rendezvous.tokenSockets", "pkg/rendezvous.tokenStreams"},
		"| bytes on the way; frames per second; calls per second":              {"pkg/rendezvous.tokenBytes", "pkg/rendezvous.tokenFrames", "pkg/rendezvous.tokenCalls"},
		"an environment | harnesses; streams; handshakes under way":            {"pkg/rendezvous.environmentHarnesses", "pkg/rendezvous.environmentStreams", "pkg/rendezvous.environmentOpening"},
		"| bytes on the way, and frames per second, in each direction":         {"pkg/rendezvous.environmentBytes", "pkg/rendezvous.environmentFrames"},
		"a token in an environment | harnesses, streams, handshakes under way": {},
		"| handshakes per second; failed ones per second":                      {"pkg/rendezvous.shareOpens", "pkg/rendezvous.shareFailures"},
		"a connection of a harness | failed handshakes":                        {"pkg/rendezvous.harnessFailures"},
		"| bytes that wait for the executor":                                   {"pkg/rendezvous.SourceBytes"},
		"a websocket | silence; time to take one frame":                        {"pkg/rendezvous.DefaultPingInterval", "pkg/rendezvous.DefaultWriteTimeout"},
	}},
	{"docs/rendezvous.md", "Names, ends and limits", map[string][]string{
		"a token": {
			"pkg/rendezvous.tokenSockets", "pkg/rendezvous.tokenStreams", "pkg/rendezvous.tokenBytes", "pkg/rendezvous.tokenFrames", "pkg/rendezvous.tokenCalls",
		},
		"an environment": {
			"pkg/rendezvous.environmentHarnesses", "pkg/rendezvous.environmentStreams", "pkg/rendezvous.environmentOpening",
			"pkg/rendezvous.environmentBytes", "pkg/rendezvous.environmentFrames",
		},
		"one token in an environment":      {},
		"an executor that does not answer": {"pkg/rendezvous.resumeClaimTime", "pkg/rendezvous.handshakeClaimTime"},
	}},
	{"docs/protocol.md", "Limits", map[string][]string{
		"`connections` | is refused with status 503": {"pkg/execserver.DefaultMaxConnections"},
		"`watches` | is refused":                     {"pkg/execserver/files.MaxServerWatches", "pkg/execserver/files.maxWatches"},
		"`descriptors`: file handles, tunnels and listeners; a handle in a sandbox counts as 4 | is refused": {
			"pkg/execserver/tunnels.maxTunnels", "pkg/execserver/tunnels.maxListeners",
		},
		"`processes` that have not closed, also those that are starting | is refused": {"pkg/execserver.DefaultMaxProcesses"},
		"`memory`: bytes of answers until they are sent, and of messages until they are answered | waits; a large file is read as it is sent, so that an error in its middle ends the connection; a message that waits for 30 s ends its connection with close code 1013": {"pkg/execserver.answerMemory"},
		"`detached`: processes that are kept | is refused":                              {"pkg/execserver/detach.maxKeepers", "pkg/execserver.DefaultMaxDetached"},
		"`detached`: bytes of output that they may retain | is refused":                 {"pkg/execserver.DefaultRetainBytes"},
		"`file_calls`: system calls about files at a time | waits, connections in turn": {"pkg/execserver/files.MaxFileCalls"},
	}},
	{"docs/operations.md", "Limits", map[string][]string{
		"connections, processes, file handles, requests, message size": {},
		"session of a lost connection":                                 {"pkg/execserver.DefaultSessionTTL"},
		"silence of a connection":                                      {"pkg/execserver.pingInterval"},
		"queue of a connection":                                        {"pkg/execserver.queueBytes"},
		"retained output":                                              {"pkg/host/process.MaxRetained"},
		"held input":                                                   {"pkg/host/process.maxHeldInput"},
		"a process that has closed":                                    {"pkg/execserver.closedReadable", "pkg/execserver.closedRetained"},
		"connections that are not authenticated":                       {"pkg/execserver.maxWaiting", "pkg/wire/websocket.requestTime"},
	}},
}

// TestDocumentedLimits compares the tables of limits with the constants of the program. A
// row that is not listed here, or a number that is not the value of a constant, is an
// error.
func TestDocumentedLimits(t *testing.T) {
	row := regexp.MustCompile(`(?m)^\| ?(.*?) \| ([^|]*) \|$`)
	number := regexp.MustCompile(`[0-9]`)
	notLimits := regexp.MustCompile(`-32\d{3}|§[0-9.]+|UTF-8|\x60[^\x60]*\x60`)
	c := constants{t: t, values: make(map[string]map[string]constant.Value)}
	for _, table := range documentedLimits {
		seen := make(map[string]bool)
		for _, m := range row.FindAllStringSubmatch(sectionOf(t, table.document, table.title), -1) {
			names, listed := table.rows[m[1]]
			if !listed {
				if number.MatchString(m[2]) { // headings contain no limits
					t.Errorf("%s, %s: the row %q is not compared", table.document, table.title, m[1])
				}
				continue
			}
			seen[m[1]] = true
			rest := notLimits.ReplaceAllString(m[2], "")
			for _, name := range names {
				spellings, found := c.spellings(name), false
				for _, spelling := range spellings {
					var before, behind string
					if before, behind, found = strings.Cut(rest, spelling); found {
						rest = before + behind
						break
					}
				}
				if !found {
					t.Errorf("%s, %s: %q has %q, but %s is %q", table.document, table.title, m[1], m[2], name, spellings)
				}
			}
			if number.MatchString(rest) {
				t.Errorf("%s, %s: %q has %q, and of no constant: %q", table.document, table.title, m[1], m[2], rest)
			}
		}
		for name := range table.rows {
			if !seen[name] {
				t.Errorf("%s, %s: there is no row %q", table.document, table.title, name)
			}
		}
	}
}

// statedDefaults are default values in the text of documents, in addition to those of options. Each expression finds
// one, which must equal the constant.
var statedDefaults = []struct{ document, expression, constant string }{
	{"docs/spec/wire.md", "`retain.bytes` .* default ([^.]+)\\.", "pkg/execserver.DefaultRetain"},
	{"docs/spec/wire.md", "the terminal's first size; default (\\d+) rows", "pkg/host/process.defaultRows"},
	{"docs/spec/wire.md", "the terminal's first size; default \\d+ rows and (\\d+) columns", "pkg/host/process.defaultCols"},
}

// TestDocumentedDefaults compares the default values that the text of documents states, as in `--max-handles` (default 128),
// with the program. TestDocumentedOptions compares the tables.
func TestDocumentedDefaults(t *testing.T) {
	option := regexp.MustCompile("`--([a-z-]+)`\\s+\\(default ([^)]+)\\)")
	app := newApp(cmdutil.Streams{Out: io.Discard, Err: io.Discard})
	server := commandAt(app.Commands, []string{"exec-server"})
	found := 0
	for _, document := range []string{"docs/spec/wire.md", "docs/spec/sandbox.md", "docs/spec/relay.md", "docs/spec/client.md", "docs/operations.md"} {
		for _, m := range option.FindAllStringSubmatch(read(t, document), -1) {
			found++
			flag, stated := flagNamed(server.Flags, m[1]), strings.ReplaceAll(m[2], " ", "")
			if flag == nil {
				t.Errorf("%s: got the default of --%s, which is no option of codex exec-server", document, m[1])
				continue
			}
			want := defaultOf(flag)
			if d, err := time.ParseDuration(stated); err == nil {
				stated = d.String()
			}
			if stated != want {
				t.Errorf("%s: got %s as the default of --%s, want %s", document, m[2], m[1], want)
			}
		}
	}
	if found == 0 {
		t.Error("got no default of an option in the text of the documents, want some")
	}
	c := constants{t: t, values: make(map[string]map[string]constant.Value)}
	for _, d := range statedDefaults {
		m := regexp.MustCompile(d.expression).FindStringSubmatch(read(t, d.document))
		if m == nil || !slices.Contains(c.spellings(d.constant), m[1]) {
			t.Errorf("%s: got %q for %s, want one of %q", d.document, m, d.expression, c.spellings(d.constant))
		}
	}
}

// constants contains the constants of packages, by package and name.
type constants struct {
	t      *testing.T
	values map[string]map[string]constant.Value
}

// of returns a constant. The name has the form pkg/group.name.
func (c constants) of(name string) constant.Value {
	c.t.Helper()
	at := strings.LastIndexByte(name, '.')
	dir, name := name[:at], name[at+1:]
	if c.values[dir] == nil {
		c.values[dir] = c.read(dir)
	}
	value := c.values[dir][name]
	if value == nil {
		c.t.Fatalf("%s has no constant %s", dir, name)
	}
	return value
}

// read evaluates the constants of a package that are numbers.
func (c constants) read(dir string) map[string]constant.Value {
	c.t.Helper()
	values, files := make(map[string]constant.Value), token.NewFileSet()
	names, err := filepath.Glob(filepath.Join(repository, dir, "*.go"))
	if err != nil || len(names) == 0 {
		c.t.Fatalf("no package %s: %v", dir, err)
	}
	var specs []*ast.ValueSpec
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			c.t.Fatal(err)
		}
		file, err := parser.ParseFile(files, name, text, parser.SkipObjectResolution)
		if err != nil {
			c.t.Fatal(err)
		}
		for _, d := range file.Decls {
			if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
				for _, spec := range g.Specs {
					specs = append(specs, spec.(*ast.ValueSpec))
				}
			}
		}
	}
	// A constant may refer to constants of another file.
	for range specs {
		for _, spec := range specs {
			for i, value := range spec.Values {
				if v := evaluate(value, values); v != nil {
					values[spec.Names[i].Name] = v
				}
			}
		}
	}
	return values
}

// evaluate returns the value of an expression that consists of numbers, time units and known
// constants. It returns nil for any other expression.
func evaluate(e ast.Expr, known map[string]constant.Value) constant.Value {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.INT {
			return constant.MakeFromLiteral(e.Value, e.Kind, 0)
		}
	case *ast.Ident:
		return known[e.Name]
	case *ast.ParenExpr:
		return evaluate(e.X, known)
	case *ast.SelectorExpr:
		unit := map[string]time.Duration{"Millisecond": time.Millisecond, "Second": time.Second, "Minute": time.Minute, "Hour": time.Hour}[e.Sel.Name]
		if x, ok := e.X.(*ast.Ident); ok && x.Name == "time" && unit != 0 {
			return constant.MakeInt64(int64(unit))
		}
	case *ast.BinaryExpr:
		x, y := evaluate(e.X, known), evaluate(e.Y, known)
		if x == nil || y == nil {
			return nil
		}
		switch e.Op {
		case token.SHL:
			n, _ := constant.Uint64Val(y)
			return constant.Shift(x, e.Op, uint(n))
		case token.QUO:
			return constant.BinaryOp(x, token.QUO_ASSIGN, y) // QUO_ASSIGN forces integer division
		case token.ADD, token.SUB, token.MUL:
			return constant.BinaryOp(x, e.Op, y)
		}
	}
	return nil
}

// spellings returns the ways in which documents may write a limit.
func (c constants) spellings(name string) []string {
	c.t.Helper()
	n, exact := constant.Int64Val(c.of(name))
	if !exact {
		c.t.Fatalf("%s is no integer", name)
	}
	var list []string
	if d := time.Duration(n); d >= time.Second && d%time.Second == 0 {
		if d >= time.Hour {
			list = append(list, fmt.Sprintf("%d h", d/time.Hour))
		}
		list = append(list, fmt.Sprintf("%d seconds", d/time.Second), fmt.Sprintf("%d s", d/time.Second))
	}
	for _, unit := range []struct {
		name string
		size int64
	}{{"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if whole, rest := n/unit.size, n%unit.size; whole > 0 && rest == 0 {
			list = append(list, fmt.Sprintf("%d %s", whole, unit.name))
		} else if whole > 0 && rest%(1<<10) == 0 {
			list = append(list, fmt.Sprintf("%d %s + %d KiB", whole, unit.name, rest>>10))
		}
	}
	digits := fmt.Sprint(n)
	for at := len(digits) - 3; at > 0; at -= 3 {
		digits = digits[:at] + "," + digits[at:]
	}
	return append(list, digits, fmt.Sprint(n))
}
