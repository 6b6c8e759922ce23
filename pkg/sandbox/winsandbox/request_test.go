package winsandbox

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// whole is a request with everything in it.
func whole() *Request {
	return &Request{
		CodexHome: `C:\Users\me\.codex`, CommandCwd: `C:\work dir`, WorkspaceRoots: []string{`C:\work dir`, `\\host\share`},
		PermissionProfile: json.RawMessage(`{"type": "disabled"}`), Env: map[string]string{"B": "<&>", "A": `"--"`},
		Level: Elevated, PrivateDesktop: true, ProxyEnforced: true, ProxySettings: Preserve,
		ReadRoots: []string{}, PlatformDefaults: true, WriteRoots: []string{"relative", `D:\`},
		DenyReadPaths: []string{`C:\secret`}, DenyWritePaths: []string{"/etc"},
		Command: []string{"cmd.exe", "--", "--codex-home", ""},
	}
}

// least is a request with only the required fields.
func least() *Request {
	return &Request{CodexHome: "/home", CommandCwd: "/work", PermissionProfile: json.RawMessage("{}"), Level: Disabled, Command: []string{"x"}}
}

func TestArgsComeInTheirOrder(t *testing.T) {
	for name, test := range map[string]struct {
		request *Request
		want    []string
	}{
		"everything": {whole(), []string{
			"--run-as-windows-sandbox", "--codex-home", `C:\Users\me\.codex`, "--command-cwd", `C:\work dir`,
			"--permission-profile", `{"type": "disabled"}`, "--env-json", `{"A":"\"--\"","B":"<&>"}`, "--windows-sandbox-level", "elevated",
			"--workspace-root", `C:\work dir`, "--workspace-root", `\\host\share`,
			"--windows-sandbox-private-desktop", "--proxy-enforced", "--preserve-proxy-settings",
			"--read-roots-json", "[]", "--read-roots-include-platform-defaults", "--write-roots-json", `["relative","D:\\"]`,
			"--deny-read-paths-json", `["C:\\secret"]`, "--deny-write-paths-json", `["/etc"]`,
			"--", "cmd.exe", "--", "--codex-home", "",
		}},
		"the least": {least(), []string{
			"--run-as-windows-sandbox", "--codex-home", "/home", "--command-cwd", "/work", "--permission-profile", "{}",
			"--env-json", "{}", "--windows-sandbox-level", "disabled", "--workspace-root", "/work", "--", "x",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := test.request.Args()
			if err != nil || !slices.Equal(got, test.want) {
				t.Errorf("%q, %v\nwant %q", got, err, test.want)
			}
		})
	}
}

// normal is a request in the form in which ParseArgs returns it.
func normal(r Request) *Request {
	if len(r.WorkspaceRoots) == 0 {
		r.WorkspaceRoots = []string{r.CommandCwd}
	}
	if r.Env == nil {
		r.Env = map[string]string{}
	}
	if len(r.DenyReadPaths) == 0 {
		r.DenyReadPaths = nil
	}
	if len(r.DenyWritePaths) == 0 {
		r.DenyWritePaths = nil
	}
	return &r
}

func wantRoundTrip(t *testing.T, r *Request) {
	t.Helper()
	args, err := r.Args()
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range [][]string{args, args[1:]} {
		got, err := ParseArgs(list)
		if err != nil {
			t.Fatalf("%q: got error %v, want no error", list, err)
		}
		if want := normal(*r); !reflect.DeepEqual(got, want) {
			t.Errorf("%q gave\n%+v, want\n%+v", list, got, want)
		}
	}
}

func TestArgumentsGiveTheRequestBack(t *testing.T) {
	wantRoundTrip(t, whole())
	wantRoundTrip(t, least())
	for _, nasty := range []string{"", " ", "--", "--env-json", `"`, `\`, `\"`, "\n", "\x00", "\u2028", "\ufffd", "日本", "'", "%PATH%", strings.Repeat("x", 1<<16)} {
		r := whole()
		r.CommandCwd, r.WorkspaceRoots = "/"+nasty, []string{`C:\` + nasty}
		r.Env = map[string]string{nasty: nasty}
		r.ReadRoots, r.WriteRoots = []string{nasty, nasty}, []string{nasty}
		r.DenyReadPaths = []string{"/" + nasty}
		r.Command = []string{nasty, nasty}
		wantRoundTrip(t, r)
	}
}

func TestBytesThatAreNoText(t *testing.T) {
	r := least()
	r.CommandCwd, r.Command = "/\xff", []string{"\xff"}
	wantRoundTrip(t, r) // they do not go through JSON
	for name, change := range map[string]func(*Request){
		"variable": func(r *Request) { r.Env = map[string]string{"\xff": ""} },
		"value":    func(r *Request) { r.Env = map[string]string{"A": "\xff"} },
		"root":     func(r *Request) { r.ReadRoots = []string{"\xff"} },
		"denied":   func(r *Request) { r.DenyReadPaths = []string{"/\xff"} },
		"profile":  func(r *Request) { r.PermissionProfile = json.RawMessage("\"\xff\"") },
	} {
		r := least()
		change(r)
		if args, err := r.Args(); err == nil {
			t.Errorf("%s: got %q, want an error", name, args)
		}
	}
}

func TestArgsRefusesWhatCouldNotBeGivenBack(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*Request)
		want   string
	}{
		"no home":           {func(r *Request) { r.CodexHome = "" }, "missing required --codex-home"},
		"relative home":     {func(r *Request) { r.CodexHome = `C:x` }, "--codex-home must be absolute: C:x"},
		"relative cwd":      {func(r *Request) { r.CommandCwd = "x" }, "--command-cwd must be absolute: x"},
		"relative root":     {func(r *Request) { r.WorkspaceRoots = []string{"/", ""} }, "--workspace-root must be absolute: "},
		"relative denied":   {func(r *Request) { r.DenyWritePaths = []string{"x"} }, "--deny-write-paths-json must be absolute: x"},
		"no level":          {func(r *Request) { r.Level = "" }, "missing required --windows-sandbox-level"},
		"an unknown level":  {func(r *Request) { r.Level = "high" }, "invalid windows sandbox level: high"},
		"no profile":        {func(r *Request) { r.PermissionProfile = nil }, "failed to parse permission profile: unexpected end of JSON input"},
		"nothing to be run": {func(r *Request) { r.Command = nil }, "missing sandboxed command in windows sandbox wrapper request"},
	} {
		t.Run(name, func(t *testing.T) {
			r := least()
			test.change(r)
			if args, err := r.Args(); err == nil || err.Error() != test.want {
				t.Errorf("%q, %v; want %s", args, err, test.want)
			}
		})
	}
}

func TestParseErrors(t *testing.T) {
	complete := []string{
		"--codex-home", "/h", "--command-cwd", "/w", "--permission-profile", "{}", "--env-json", "{}",
		"--windows-sandbox-level", "disabled", "--", "x",
	}
	without := func(flag string) []string {
		i := slices.Index(complete, flag)
		return slices.Delete(slices.Clone(complete), i, i+2)
	}
	with := func(args ...string) []string { return append(args, complete...) }
	for name, test := range map[string]struct {
		args []string
		want string
	}{
		"an unknown flag":      {with("--unknown"), "unexpected windows sandbox wrapper argument: --unknown"},
		"a flag's other form":  {with("--codex-home=/h"), "unexpected windows sandbox wrapper argument: --codex-home=/h"},
		"the selector twice":   {append([]string{Selector, Selector}, complete...), "unexpected windows sandbox wrapper argument: " + Selector},
		"a word":               {with(""), "unexpected windows sandbox wrapper argument: "},
		"no value":             {[]string{"--env-json"}, "missing value for --env-json"},
		"no home":              {without("--codex-home"), "missing required --codex-home"},
		"no cwd":               {without("--command-cwd"), "missing required --command-cwd"},
		"no environment":       {without("--env-json"), "missing required --env-json"},
		"no profile":           {without("--permission-profile"), "missing required --permission-profile"},
		"no level":             {without("--windows-sandbox-level"), "missing required --windows-sandbox-level"},
		"nothing at all":       {nil, "missing required --codex-home"},
		"relative home":        {append([]string{"--codex-home", "h"}, without("--codex-home")...), "--codex-home must be absolute: h"},
		"relative cwd":         {with("--command-cwd", `\w`), `--command-cwd must be absolute: \w`},
		"relative root":        {with("--workspace-root", "w"), "--workspace-root must be absolute: w"},
		"no separator":         {complete[:len(complete)-2], "missing sandboxed command separator --"},
		"no command":           {complete[:len(complete)-1], "missing sandboxed command in windows sandbox wrapper request"},
		"a level":              {with("--windows-sandbox-level", " elevated"), "invalid windows sandbox level:  elevated"},
		"environment: null":    {with("--env-json", "null"), "failed to parse env json: it is not an object of strings"},
		"environment: a null":  {with("--env-json", `{"A":null}`), "failed to parse env json: it is not an object of strings"},
		"environment: no JSON": {with("--env-json", ""), "failed to parse env json: unexpected end of JSON input"},
		"profile: no JSON":     {with("--permission-profile", "{} {}"), "failed to parse permission profile: invalid character '{' after top-level value"},
		"a list: null":         {with("--read-roots-json", "null"), "failed to parse --read-roots-json: it is not a list of strings"},
		"a list: a null":       {with("--write-roots-json", "[null]"), "failed to parse --write-roots-json: it is not a list of strings"},
		"a relative denial":    {with("--deny-read-paths-json", `["x"]`), "failed to parse --deny-read-paths-json: path is not absolute: x"},
		"a value is taken":     {with("--codex-home", "--", "--proxy-enforced", "--command-cwd", "--"), "--command-cwd must be absolute: --"},
	} {
		t.Run(name, func(t *testing.T) {
			if r, err := ParseArgs(test.args); err == nil || err.Error() != test.want {
				t.Errorf("%+v, %v; want %s", r, err, test.want)
			}
		})
	}
}

func TestFlagsInAnyOrder(t *testing.T) {
	got, err := ParseArgs([]string{
		"--preserve-proxy-settings", "--workspace-root", "/b", "--windows-sandbox-level", "elevated", "--env-json", `{"A":"1"}`,
		"--command-cwd", "/first", "--command-cwd", "/w", "--workspace-root", "/a", "--permission-profile", " [] ", "--codex-home", "/h", "--", "--",
	})
	want := &Request{
		CodexHome: "/h", CommandCwd: "/w", WorkspaceRoots: []string{"/b", "/a"}, PermissionProfile: json.RawMessage(" [] "),
		Env: map[string]string{"A": "1"}, Level: Elevated, ProxySettings: Preserve, Command: []string{"--"},
	}
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, error %v; want no error, %+v", got, err, want)
	}
}

func TestAbsolute(t *testing.T) {
	for path, want := range map[string]bool{
		"/": true, "/x": true, `C:\`: true, "c:/x": true, `\\host\share`: true, `\\host\share\x`: true, `\\?\C:\x`: true, `\\.\pipe\x`: true, "//host/share": true,
		"": false, "x": false, `\x`: false, `C:`: false, `C:x`: false, `1:\`: false, `\\`: false, `\\host`: false, `\\host\`: false, `\\host\\x`: false, `é:\x`: false, "~": false,
	} {
		if got := isAbsolute(path); got != want {
			t.Errorf("%q: got %t, want %t", path, got, want)
		}
	}
}

// FuzzRoundTrip makes requests of arbitrary strings. If Args accepts a request, ParseArgs must
// return it again.
func FuzzRoundTrip(f *testing.F) {
	f.Add("/h", "/w", `{"type":"disabled"}`, "A\x01B", "x\x01--\x01y", uint16(0xffff))
	f.Add(`C:\h`, `\\h\s`, "null", "", "--", uint16(0))
	f.Add("h", "", "{", "\xff", "", uint16(0x155))
	f.Fuzz(func(t *testing.T, home, cwd, profile, words, command string, bits uint16) {
		list := strings.Split(words, "\x01")
		on := func(n int) bool { return bits>>n&1 != 0 }
		pick := func(n int) []string {
			if on(n) {
				return list
			}
			return nil
		}
		r := &Request{
			CodexHome: home, CommandCwd: cwd, PermissionProfile: json.RawMessage(profile), WorkspaceRoots: pick(0),
			Level: []Level{Disabled, RestrictedToken, Elevated, Level(words)}[bits>>14], PrivateDesktop: on(1), ProxyEnforced: on(2), PlatformDefaults: on(3),
			ReadRoots: pick(4), WriteRoots: pick(5), DenyReadPaths: pick(6), DenyWritePaths: pick(7), Command: strings.Split(command, "\x01"),
		}
		if on(8) {
			r.ProxySettings = Preserve
		}
		if on(9) {
			r.Env = map[string]string{}
			for _, word := range list {
				r.Env[word] = command
			}
		}
		if _, err := r.Args(); err == nil {
			wantRoundTrip(t, r)
		} else if isAbsolute(home) && isAbsolute(cwd) && json.Valid([]byte(profile)) &&
			utf8.ValidString(profile) && utf8.ValidString(words) && utf8.ValidString(command) &&
			r.Level.check() == nil && !slices.ContainsFunc(list, func(s string) bool { return !isAbsolute(s) }) {
			t.Errorf("%+v is refused: %v", r, err)
		}
	})
}

// FuzzParseArgs passes arbitrary lists to ParseArgs. If it accepts a list, Args must build it
// again.
func FuzzParseArgs(f *testing.F) {
	args, err := whole().Args()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(strings.Join(args, "\x01"))
	f.Add("--env-json\x01{\"A\":\"\\ud800\"}\x01--")
	f.Fuzz(func(t *testing.T, text string) {
		r, err := ParseArgs(strings.Split(text, "\x01"))
		if err != nil {
			return
		}
		wantRoundTrip(t, r)
	})
}
