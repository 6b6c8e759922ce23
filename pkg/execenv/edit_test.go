package execenv

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEdit(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, FileName)
	const begin = "# mine\ndefault = \"a\" # the usual one\n\n# first\n[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n" +
		"\n# second\n[[environments]]\nid = \"b\"\nprogram = \"p\"\n[environments.env]\nA = \"[[environments]]\"\n\n# last\n[[environments]]\nid = \"c\"\nssh = \"h\"\n"
	if err := os.WriteFile(path, []byte(begin), 0o640); err != nil {
		t.Fatal(err)
	}
	is := func(want string) {
		t.Helper()
		got, err := os.ReadFile(path)
		if err != nil || string(got) != want {
			t.Errorf("the file is\n%s\nwant\n%s (%v)", got, want, err)
		}
	}
	added := Entry{ID: "d", SSH: "user@host", SSHArgs: []string{"-p", `2"2`}, Codex: "~/codex"}
	if _, err := Add(home, added, false); err != nil {
		t.Fatal(err)
	}
	const d = "\n[[environments]]\nid = \"d\"\nssh = \"user@host\"\nssh_args = [\"-p\", \"2\\\"2\"]\ncodex = \"~/codex\"\n"
	is(begin + d)
	if _, err := Add(home, added, false); err == nil || !strings.Contains(err.Error(), "already") {
		t.Errorf("added twice: %v", err)
	}
	for _, bad := range []Entry{{ID: "local", URL: "ws://x"}, {ID: "e"}, {ID: "e", URL: "http://x"}, {ID: "e", SSH: "-oProxyCommand=x"}} {
		if _, err := Add(home, bad, false); err == nil {
			t.Errorf("added %+v", bad)
		}
	}
	is(begin + d)
	if _, err := Remove(home, "b"); err != nil {
		t.Fatal(err)
	}
	const b = "[[environments]]\nid = \"b\"\nprogram = \"p\"\n[environments.env]\nA = \"[[environments]]\"\n\n"
	is(strings.Replace(begin, b, "", 1) + d)
	if _, err := Remove(home, "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := Remove(home, "local"); err == nil {
		t.Error("removed the built-in environment")
	}
	c, err := Load(LoadOptions{Home: func() (string, error) { return home, nil }, Getenv: func(string) string { return "" }})
	if err != nil || strings.Join(c.IDs(), " ") != "local c d" {
		t.Errorf("left are %v, %v", c.IDs(), err)
	}
	if _, err := Add(home, Entry{ID: "e", Rendezvous: "https://meet", TokenFile: "t"}, true); err != nil {
		t.Fatal(err)
	}
	if c, err = Load(LoadOptions{Home: func() (string, error) { return home, nil }, Getenv: func(string) string { return "" }}); err != nil || c.Default != "e" {
		t.Errorf("the default is %q, %v", c.Default, err)
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the mode is %v, %v", info.Mode(), err)
	}
	if names, _ := filepath.Glob(home + "/*"); len(names) != 1 {
		t.Errorf("left behind: %v", names)
	}
}

// TestEditGivesUp: a file in a form that cannot be edited stays unchanged.
func TestEditGivesUp(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, FileName)
	for _, text := range []string{
		"environments = [{id = \"a\", url = \"ws://127.0.0.1:1\"}]\n",
		"[[environments]]\nid = \"x\"\nprogram = \"p\"\nargs = [\n  \"\"\"\n[[environments]]\n\"\"\",\n]\n[[environments]]\nid = \"a\"\nurl = \"ws://127.0.0.1:1\"\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := Remove(home, "a"); err == nil {
			t.Errorf("removed from %q", text)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != text {
			t.Errorf("the file is %q, %v", got, err)
		}
	}
}

func TestEditNewFile(t *testing.T) {
	home := filepath.Join(t.TempDir(), "new")
	path, err := Add(home, Entry{ID: "a", URL: "ws://127.0.0.1:1", BearerToken: "secret"}, true)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the file: %v, %v", info, err)
	}
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
