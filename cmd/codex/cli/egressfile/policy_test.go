package egressfile

import (
	"os"
	"strings"
	"testing"
)

// injected is a policy with a credential.
const injected = "default = 'deny'\n[[inject]]\nhost = 'api.test'\nheader = 'Authorization'\nscheme = 'Bearer'\n" +
	"value_file = '/run/secrets/api'\nplaceholder_env = 'API_TOKEN'\nupstream_ca = '/etc/ca.pem'\n"

func TestParseEgressPolicy(t *testing.T) {
	for text, want := range map[string]string{
		"default = 'deny'\nallow = ['*.a.test', 'b.test:443']\nask = ['c.test']\ndeny = ['*']\nports = [443]\nprivate_addresses = true": "",
		"default = 'allow'":                           "",
		"default = 'ask'":                             "",
		"":                                            "default is missing: it must be allow, ask or deny",
		"default = 'Deny'":                            "it must be allow, ask or deny",
		"default = 'deny'\nalow = []":                 "unknown field `alow`",
		"default = 'deny'\ndeny = ['a/b']":            "deny: unsupported domain pattern syntax: a/b",
		"default = 'deny'\nask = ['']":                "ask: domain pattern is empty",
		"default = 'deny'\nports = [0]":               "0 is not a valid port",
		"default = 'deny'\nports = [65536]":           "1:", // the expected line and column
		"default = 'deny'\ndeny = 'a.test'":           "2:",
		"default = [":                                 "1:",
		injected:                                      "",
		strings.ReplaceAll(injected, "host", "hosts"): "unknown field `hosts`",
		strings.ReplaceAll(injected, "api.test", ""):  "inject[0]: host is \"\"",
		injected + strings.TrimPrefix(injected, "default = 'deny'\n"): "inject[1]: inject[0] sets Authorization for api.test already",
	} {
		c, err := parse([]byte(text))
		switch {
		case want == "" && (err != nil || c == nil):
			t.Errorf("%q: got error %v; want no error, c that is not nil", text, err)
		case want != "" && (err == nil || c != nil):
			t.Errorf("%q was accepted", text)
		case want != "" && !strings.Contains(err.Error(), want) && want != "1:":
			t.Errorf("%q: got %v, want %s", text, err, want)
		}
	}
}

func TestReadEgressPolicy(t *testing.T) {
	dir := t.TempDir()
	if c, err := Read(""); c != nil || err != nil {
		t.Errorf("no file: %v, %v", c, err)
	}
	for name, text := range map[string]string{"missing": "", "wrong": "default = 1", "large": "#" + strings.Repeat("x", maxSize), "no-secret": injected} {
		path := dir + "/" + name
		if text != "" {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if c, err := Read(path); c != nil || err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: got c %v, error %v; want c nil, error with %q", name, c, err, path)
		}
	}
}

func FuzzParseEgressPolicy(f *testing.F) {
	for _, s := range []string{"default = 'deny'\nallow = ['*.a.test']", "default = 'ask'\nports = [1]", "[[x]]", "default = \"\\u0000\"", injected} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		if c, err := parse(text); (c == nil) == (err == nil) {
			t.Errorf("%q: got c %v, error %v; want one of them", text, c, err)
		}
	})
}
