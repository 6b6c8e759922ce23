package execenv

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// editorIn returns an editor of a new home directory, with a file of environments unless text is empty.
func editorIn(t *testing.T, text string, mode os.FileMode) (Editor, string) {
	t.Helper()
	home := t.TempDir()
	path := filepath.Join(home, FileName)
	if text != "" {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, mode); err != nil { // WriteFile's mode is subject to the umask
			t.Fatal(err)
		}
	}
	return Editor{Home: home, Self: "/bin/codex-go"}, path
}

func loadHome(t *testing.T, home string) Config {
	t.Helper()
	c, err := Load(LoadOptions{Home: func() (string, error) { return home, nil }, Getenv: func(string) string { return "" }})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sameText(t *testing.T, path, want string) {
	t.Helper()
	if got, err := os.ReadFile(path); err != nil || string(got) != want {
		t.Errorf("the file is\n%s\nwant\n%s (%v)", got, want, err)
	}
}

func TestEdit(t *testing.T) {
	const begin = "# mine\ndefault = \"a\" # the usual one\n\n# first\n[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n" +
		"\n# second\n[[environments]]\nid = \"b\"\nprogram = \"p\"\n[environments.env]\nA = \"[[environments]]\"\ndefault = \"c\"\n\n# last\n[[environments]]\nid = \"c\"\nprogram = \"h\"\n"
	d, path := editorIn(t, begin, 0o600)
	added := Entry{ID: "d", SSH: "user@host", SSHArgs: []string{"-p", `2"2`}, Codex: "~/codex"}
	if _, err := d.Add(added, false); err != nil {
		t.Fatal(err)
	}
	const last = "\n[[environments]]\nid = \"d\"\nprogram = \"/bin/codex-go\"\n" +
		"args = [\"environments\", \"connect\", \"--ssh=user@host\", \"--codex=~/codex\", \"--ssh-arg=-p\", \"--ssh-arg=2\\\"2\"]\n"
	sameText(t, path, begin+last)
	if _, err := d.Add(added, false); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("added twice: %v", err)
	}
	for _, bad := range []Entry{{ID: "local", URL: "ws://x"}, {ID: "e"}, {ID: "e", URL: "http://x"}, {ID: "e", SSH: "-oProxyCommand=x"}} {
		if _, err := d.Add(bad, false); err == nil {
			t.Errorf("added %+v", bad)
		}
	}
	if _, err := (Editor{Home: d.Home}).Add(Entry{ID: "e", SSH: "h"}, false); err == nil {
		t.Error("added what Codex CLI cannot read")
	}
	if _, err := d.Add(Entry{ID: "e", URL: "wss://h/?secret", CA: "/ca"}, false); err == nil || strings.Contains(err.Error(), "secret") {
		t.Errorf("added a secret to the arguments of a program: %v", err)
	}
	sameText(t, path, begin+last)
	if _, err := d.Remove("b"); err != nil {
		t.Fatal(err)
	}
	const b = "[[environments]]\nid = \"b\"\nprogram = \"p\"\n[environments.env]\nA = \"[[environments]]\"\ndefault = \"c\"\n\n"
	sameText(t, path, strings.Replace(begin, b, "", 1)+last)
	if _, err := d.Remove("a"); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Remove("local"); err == nil {
		t.Error("removed the built-in environment")
	}
	if ids := strings.Join(loadHome(t, d.Home).IDs(), " "); ids != "local c d" {
		t.Errorf("left are %v", ids)
	}
	if names, _ := filepath.Glob(d.Home + "/*"); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

// TestCodexCLIReadsEachForm: an environment of each form has only members that every release of Codex
// CLI knows, and means the same here. scripts/codex-cli has each release read such files.
func TestCodexCLIReadsEachForm(t *testing.T) {
	known := regexp.MustCompile(`^(\[\[environments\]\]|(id|url|program|args) = .*|)$`)
	for _, tt := range []struct {
		name  string
		entry Entry
		want  Spec
		plain bool // it needs no program
	}{
		{"a port", Entry{URL: "ws://h:1"}, Spec{Kind: WebSocket, URL: "ws://h:1"}, true},
		{"TLS", Entry{URL: "wss://h"}, Spec{Kind: WebSocket, URL: "wss://h"}, true},
		{"a token", Entry{URL: "wss://h", TokenFile: "/t"}, Spec{Kind: WebSocket, URL: "wss://h", TokenFile: "/t"}, false},
		{
			"certificates", Entry{URL: "wss://h", CA: "/ca", ClientCert: "/c", ClientKey: "/k=y"},
			Spec{Kind: WebSocket, URL: "wss://h", TLS: TLSFiles{"/ca", "/c", "/k=y"}}, false,
		},
		{"a socket", Entry{URL: "unix:///s"}, Spec{Kind: WebSocket, URL: "unix:///s"}, false},
		{
			"rendezvous", Entry{Rendezvous: "https://m", TokenFile: "/t", CA: "/ca"},
			Spec{Kind: Noise, Registry: Registry{URL: "https://m", EnvironmentID: "x", TokenFile: "/t", CA: "/ca"}}, false,
		},
		{
			"ssh", Entry{SSH: "u@h", SSHArgs: []string{"-o", "A=b c"}, Codex: "~/c"},
			Spec{Kind: SSH, Host: SSHHost{Host: "u@h", Args: []string{"-o", "A=b c"}, Codex: "~/c"}}, false,
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, path := editorIn(t, "", 0)
			tt.entry.ID, tt.want.ID = "x", "x"
			if _, err := d.Add(tt.entry, false); err != nil {
				t.Fatal(err)
			}
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				if !known.MatchString(strings.TrimSuffix(line, "\n")) {
					t.Errorf("got line %q, want only members that Codex CLI knows", line)
				}
			}
			if plain := !strings.Contains(string(text), "program"); plain != tt.plain {
				t.Errorf("without a program: %v, want %v", plain, tt.plain)
			}
			if tt.want.Source = path; tt.want.Kind == SSH {
				tt.want.Host.Sockets = SocketDir(d.Home)
			}
			if got, _ := loadHome(t, d.Home).Find("x"); !reflect.DeepEqual(got, tt.want) {
				t.Errorf("got %+v, want %+v", got, tt.want)
			}
		})
	}
}

// TestOtherPrograms: arguments that are not all from ConnectArgs are those of a program that is started.
func TestOtherPrograms(t *testing.T) {
	for _, rest := range []string{
		`args = ["environments", "connect"]`,
		`args = ["environments", "connect", "--ssh=h", "--new=x"]`,
		`args = ["environments", "connect", "--ssh", "h"]`,
		`args = ["environments", "connect", "--ssh=h"]` + "\ncwd = \"d\"",
		`args = ["environments", "connect", "--ssh=h"]` + "\nenv = {A = \"b\"}",
		`args = ["environments", "check", "--ssh=h"]`,
		`args = ["environments", "connect", "--codex=/c"]`,
	} {
		c, err := load(t, "[[environments]]\nid = \"x\"\nprogram = \"p\"\n"+rest, nil)
		if s, _ := c.Find("x"); err != "" || s.Kind != Stdio || s.Program != "p" {
			t.Errorf("%s: got %+v, %s, want the program", rest, s, err)
		}
	}
}

// TestEditConverts: an edit makes older environments readable for Codex CLI if that is possible.
func TestEditConverts(t *testing.T) {
	const text = "[[environments]]\nid = \"a\"\nssh = \"h\" # there\n# its port\nssh_args = [\"-p\", \"2\"]\ninitialize_timeout_sec = 9\n\n" +
		"[[environments]]\nid = \"b\"\nrendezvous = \"https://m\"\ntoken_file = \"t\"\n\n" +
		"[[environments]]\nid = \"c\"\nurl = \"wss://h\"\nca = \"ca\"\nauth_bearer_token = \"secret\"\n\n" +
		"[[environments]]\nid = \"d\"\nssh = \"h\"\nssh_args = [\n\"-v\"]\n"
	d, path := editorIn(t, text, 0o644)
	before := loadHome(t, d.Home)
	if before.Warning == "" {
		t.Error("no warning about a token that others can read")
	}
	done, err := d.Use("b")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := done.Converted, []string{"a", "b"}; !slices.Equal(got, want) {
		t.Errorf("got converted %v, want %v", got, want)
	}
	if got, want := done.Unreadable, []string{"c", "d"}; !slices.Equal(got, want) {
		t.Errorf("got unreadable %v, want %v", got, want)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 || done.Opened != 0o644 {
		t.Errorf("got %v, %v, former mode %o; want 0600, 0644", info, err, done.Opened)
	}
	if !done.LocalExcluded {
		t.Error("include_local = false was not written")
	}
	after := loadHome(t, d.Home)
	if after.Default != "b" || !reflect.DeepEqual(after.Environments, before.Environments[1:]) || after.Warning != "" {
		t.Errorf("got %+v, want the same environments as %+v without local", after, before)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := "default = \"b\"\ninclude_local = false\n\n[[environments]]\nid = \"a\"\nprogram = \"/bin/codex-go\"\n" +
		"args = [\"environments\", \"connect\", \"--ssh=h\", \"--ssh-arg=-p\", \"--ssh-arg=2\"]\n# its port\ninitialize_timeout_sec = 9\n"
	if !strings.HasPrefix(string(got), want) {
		t.Errorf("got\n%s\nwant it to begin with\n%s", got, want)
	}
}

// TestUse: include_local is written once, and a line about it stays.
func TestUse(t *testing.T) {
	const entry = "[[environments]]\nid = \"a\"\nurl = \"ws://h\"\n"
	for _, tt := range []struct {
		name, text, id string
		keep           bool
		want           string
	}{
		{"the first default", entry, "a", false, "default = \"a\"\ninclude_local = false\n\n" + entry},
		{"with local", entry, "a", true, "default = \"a\"\ninclude_local = true\n\n" + entry},
		{"a line about it", "# x\ninclude_local = true # yes\n" + entry, "a", false, "default = \"a\"\n\n# x\ninclude_local = true # yes\n" + entry},
		{"back to local", "include_local = false\ndefault = \"a\"\n" + entry, "local", false, "include_local = true\ndefault = \"local\"\n" + entry},
		{"local", entry, "local", false, "default = \"local\"\n\n" + entry},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d, path := editorIn(t, tt.text, 0o600)
			d.KeepLocal = tt.keep
			done, err := d.Use(tt.id)
			if err != nil || done.Opened != 0 {
				t.Fatalf("got %+v, %v", done, err)
			}
			sameText(t, path, tt.want)
		})
	}
	d, path := editorIn(t, entry, 0o600)
	var unknown *UnknownError
	if _, err := d.Use("b"); !errors.As(err, &unknown) {
		t.Errorf("got error %v, want that there is no b", err)
	}
	sameText(t, path, entry)
}

// TestEditGivesUp: a file in a form that cannot be edited stays unchanged.
func TestEditGivesUp(t *testing.T) {
	for _, text := range []string{
		"environments = [{id = \"a\", url = \"ws://127.0.0.1:1\"}]\n",
		"[[environments]]\nid = \"x\"\nprogram = \"p\"\nargs = [\n  \"\"\"\n[[environments]]\n\"\"\",\n]\n[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n",
	} {
		d, path := editorIn(t, text, 0o600)
		if _, err := d.Remove("a"); err == nil {
			t.Errorf("removed from %q", text)
		}
		sameText(t, path, text)
	}
}

func TestEditNewFile(t *testing.T) {
	d := Editor{Home: filepath.Join(t.TempDir(), "new"), Self: "/bin/codex-go"}
	done, err := d.Add(Entry{ID: "a", URL: "ws://127.0.0.1:1"}, true)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(done.Path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
	sameText(t, done.Path, "default = \"a\"\ninclude_local = false\n\n[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n")
}

func TestSSHCommand(t *testing.T) {
	_, args := SSHHost{Host: "u@h", Args: []string{"-p", "22"}}.Command("echo 'it is'")
	if got := strings.Join(args[len(args)-3:], "|"); got != `--|u@h|exec sh -c 'echo '\''it is'\'''` || args[0] != "-p" {
		t.Errorf("ssh %q", args)
	}
	for said, want := range map[string]string{
		notFound:                                             "codex is not installed on that machine",
		"u@h: Permission denied (publickey).":                "u@h: Permission denied (publickey).; no password is asked for here",
		"Host key verification failed.":                      "try ssh u@h true",
		"ssh: connect to host h port 22: Connection refused": "ssh u@h: ssh: connect to host h port 22: Connection refused",
		"": "ssh u@h: transport",
	} {
		if got := (&SSHError{Host: "u@h", Said: said, Err: os.ErrClosed}).Error(); !strings.Contains(strings.Replace(got, os.ErrClosed.Error(), "transport", 1), want) {
			t.Errorf(`%q: got %s, want strings.Replace(got, os.ErrClosed.Error(), "transport", 1) with %q`, said, got, want)
		}
	}
}
