package execenv

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"codex.internal/pkg/execclient"
)

var builtIn = Spec{ID: "local", Kind: Local, Source: "built in"}

// load calls Load with a home directory that has environments.toml, if text is not empty, and
// with variables. In the results PATH stands for the path of the file, and HOME for its
// directory.
func load(t *testing.T, text string, variables map[string]string) (Config, string) {
	t.Helper()
	home := t.TempDir()
	if text != "" {
		if err := os.WriteFile(filepath.Join(home, FileName), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	c, err := Load(LoadOptions{Home: func() (string, error) { return home, nil }, Getenv: func(name string) string { return variables[name] }})
	short := strings.NewReplacer(filepath.Join(home, FileName), "PATH", home, "HOME").Replace
	c.Source = short(c.Source)
	for i, s := range c.Environments {
		c.Environments[i].Source, c.Environments[i].Dir = short(s.Source), short(s.Dir)
		c.Environments[i].TLS = TLSFiles{short(s.TLS.CA), short(s.TLS.ClientCert), short(s.TLS.ClientKey)}
	}
	if err != nil {
		return c, short(err.Error())
	}
	return c, ""
}

func TestOrderOfSelection(t *testing.T) {
	registry := map[string]string{registryURLVariable: " https://r ", registryIDVariable: "e", registryTokenVariable: "t"}
	with := func(more ...string) map[string]string {
		m := make(map[string]string)
		for k, v := range registry {
			m[k] = v
		}
		for i := 0; i < len(more); i += 2 {
			m[more[i]] = more[i+1]
		}
		return m
	}
	noise := Spec{ID: "remote", Kind: Noise, Source: registryURLVariable, Registry: Registry{URL: "https://r", EnvironmentID: "e", Token: "t"}}
	account := noise
	account.Registry.AccountID = "a"
	url := Spec{ID: "remote", Kind: WebSocket, Source: URLVariable, URL: "ws://u"}
	token := url
	token.Token = "k"
	const incomplete = "environment registry configuration error: Noise environment requires CODEX_EXEC_SERVER_NOISE_REGISTRY_URL, CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID, and CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN"
	local := Config{Default: "local", Environments: []Spec{builtIn}}
	for _, tt := range []struct {
		name, file string
		variables  map[string]string
		want       Config
		err        string
	}{
		{"nothing", "", nil, local, ""},
		{"a registry before all", "broken", with(URLVariable, "ws://u"), Config{"remote", []Spec{noise}, registryURLVariable, ""}, ""},
		{"a registry with an account", "", with(registryAccountVariable, "a"), Config{"remote", []Spec{account}, registryURLVariable, ""}, ""},
		{"a registry without its URL", "", with(registryURLVariable, " "), Config{}, incomplete},
		{"a registry without an id", "", with(registryIDVariable, ""), Config{}, incomplete},
		{"a registry without a token", "", with(registryTokenVariable, ""), Config{}, incomplete},
		{"an account alone is no registry", "", map[string]string{registryAccountVariable: "a"}, local, ""},
		{"a file before a URL", "include_local = true", map[string]string{URLVariable: "ws://u"}, Config{"local", []Spec{builtIn}, "PATH", ""}, ""},
		{"a URL", "", map[string]string{URLVariable: " ws://u "}, Config{"remote", []Spec{url}, URLVariable, ""}, ""},
		{"a URL with a token", "", map[string]string{URLVariable: "ws://u", TokenVariable: "k"}, Config{"remote", []Spec{token}, URLVariable, ""}, ""},
		{"a blank URL", "", map[string]string{URLVariable: "  "}, local, ""},
		{"none", "", map[string]string{URLVariable: "None"}, Config{Source: URLVariable}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got, err := load(t, tt.file, tt.variables); err != tt.err || !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%#v, %q; want %#v, %q", got, err, tt.want, tt.err)
			}
		})
	}
}

// The caller's id replaces the one for the registry.
func TestEnvironmentsOfARegistry(t *testing.T) {
	variables := map[string]string{registryURLVariable: "https://r", registryIDVariable: "e", registryTokenVariable: "t"}
	for _, tt := range []struct{ id, variable, wantID, want string }{
		{"", "e", "remote", "e"},
		{"remote", "e", "remote", "e"},
		{"ci-1", "e", "ci-1", "ci-1"},
		{"ci-1", "", "ci-1", "ci-1"},
	} {
		variables[registryIDVariable] = tt.variable
		c, err := Load(LoadOptions{EnvironmentID: tt.id, Getenv: func(name string) string { return variables[name] }})
		if err != nil {
			t.Fatal(err)
		}
		if s, ok := c.Find(tt.wantID); !ok || c.Default != tt.wantID || s.Registry.EnvironmentID != tt.want {
			t.Errorf("%q, with %q in the variable: %+v", tt.id, tt.variable, c)
		}
	}
}

func TestRulesOfTheFile(t *testing.T) {
	const head = "[[environments]]\nid = \"x\"\n"
	const prefix = "exec-server protocol error: "
	for _, tt := range []struct{ name, text, want string }{
		{"blank id", "[[environments]]\nid = \" \"\nargs = [\"a\"]", "environment id cannot be empty"},
		{"blanks around the id", "[[environments]]\nid = \" x\"", "environment id ` x` must not contain surrounding whitespace"},
		{"local", "[[environments]]\nid = \"local\"", "environment id `local` is reserved"},
		{"none in any case", "[[environments]]\nid = \"NONE\"", "environment id `NONE` is reserved"},
		{"long id", "[[environments]]\nid = \"" + strings.Repeat("é", 33) + "\"", "environment id `" + strings.Repeat("é", 33) + "` cannot be longer than 64 characters"},
		{"odd id", "[[environments]]\nid = \"a b\"", "environment id `a b` must contain only ASCII letters, numbers, '-' or '_'"},
		{"args without program", head + "url = \"ws://h\"\nargs = []", "environment `x` args, env, and cwd require program"},
		{"env without program", head + "env = {A = \"b\"}", "environment `x` args, env, and cwd require program"},
		{"cwd without program", head + "cwd = \"a\"\nconnect_timeout_sec = 1", "environment `x` args, env, and cwd require program"},
		{"connect timeout of a program", head + "program = \"p\"\nconnect_timeout_sec = 1", "environment `x` connect_timeout_sec requires url"},
		{"token of a program", head + "program = \"p\"\nauth_bearer_token = \"t\"", "environment `x` auth_bearer_token requires url"},
		{"authority of a program", head + "program = \"p\"\nca = \"c\"", "environment `x` ca, client_cert, and client_key require url"},
		{"authority without TLS", head + "url = \"ws://h\"\nca = \"c\"", "environment `x` ca, client_cert, and client_key require a wss:// url"},
		{"blank authority", head + "url = \"wss://h\"\nca = \" \"", "environment `x` ca, client_cert, and client_key cannot be empty"},
		{"certificate without a key", head + "url = \"wss://h\"\nclient_cert = \"c\"", "environment `x`: client_cert and client_key must be given together"},
		{"neither url nor program", head, "environment `x` must set exactly one of url or program"},
		{"url and program", head + "url = \"\"\nprogram = \"p\"", "environment `x` must set exactly one of url or program"},
		{"blank program", head + "program = \" \"", "environment `x` program cannot be empty"},
		{"blank url", head + "url = \" \"", "environment url cannot be empty"},
		{"other scheme", head + "url = \"http://h\"", "environment url `http://h` must use ws:// or wss://"},
		{"scheme in capitals", head + "url = \"WS://h\"", "environment url `WS://h` must use ws:// or wss://"},
		{"no host", head + "url = \"ws://\"", "environment url `ws://` is invalid: it has no host"},
		{"url that does not parse", head + "url = \"ws://u:secret@h h/?secret\"", "environment url `ws://h h/` is invalid: invalid character \" \" in host name"},
		{"duplicate", head + "url = \"ws://h\"\n" + head + "program = \"p\"", "environment id `x` is duplicated"},
		{"blank default", "default = \" \"", "default environment id cannot be empty"},
		{"unknown default", "default = \"y\"", "default environment `y` is not configured"},
		{"local that is not included", "default = \"local\"\ninclude_local = false", "default environment `local` is not configured"},
		{"no TOML", "default = ", "failed to parse environment config `PATH`: 1:10: expected value, not end of input"},
		{"another type", "default = 5", "failed to parse environment config `PATH`: 1:11: invalid type: integer, expected a string"},
		{"unknown key", "nope = 1", "failed to parse environment config `PATH`: 1:1: unknown field `nope`"},
		{"unknown key of an environment", head + "url = \"ws://h\"\nnope = 1", "failed to parse environment config `PATH`: 4:1: unknown field `nope`"},
		{"no id", "[[environments]]\nurl = \"ws://h\"", "failed to parse environment config `PATH`: missing field `id` in environment 1"},
		{"a table in place of an array", "[environments]\nid = \"x\"", "failed to parse environment config `PATH`: `environments` must be an array of tables: write [[environments]]"},
		{"negative timeout", head + "url = \"ws://h\"\nconnect_timeout_sec = -1", "failed to parse environment config `PATH`: connect_timeout_sec of environment 1 must be a number of seconds from 0 to 9223372036"},
		{"endless timeout", head + "url = \"ws://h\"\ninitialize_timeout_sec = inf", "failed to parse environment config `PATH`: initialize_timeout_sec of environment 1 must be a number of seconds from 0 to 9223372036"},
		{"no number", head + "url = \"ws://h\"\ninitialize_timeout_sec = nan", "failed to parse environment config `PATH`: initialize_timeout_sec of environment 1 must be a number of seconds from 0 to 9223372036"},
		{"large file", "default = \"" + strings.Repeat("x", maxFileBytes) + "\"", "failed to read environment config `PATH`: it is larger than 1048576 bytes"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if _, err := load(t, tt.text, nil); err != prefix+tt.want {
				t.Errorf("got  %q\nwant %q", err, prefix+tt.want)
			}
		})
	}
}

func TestUnreadableFile(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, FileName)
	if err := os.Mkdir(path, 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := Load(LoadOptions{Home: func() (string, error) { return home, nil }, Getenv: func(string) string { return "" }})
	want := fmt.Sprintf("exec-server protocol error: failed to read environment config `%s`: is a directory", path)
	var typed *execclient.ProtocolError
	if err == nil || err.Error() != want || !errors.As(err, &typed) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestWhatTheFileSays(t *testing.T) {
	const both = `
[[environments]]
id = "devbox"
url = " wss://h:1/p?q "
auth_bearer_token = "t"
ca = "ca.pem"
client_cert = "/c.pem"
client_key = "c/key"
connect_timeout_sec = 1.5
initialize_timeout_sec = 20

[[environments]]
id = "ssh-dev"
program = " ssh "
args = ["dev", "codex"]
cwd = "work"
initialize_timeout_sec = 0
[environments.env]
B = "2"
A = "1"
`
	devbox := Spec{
		ID: "devbox", Kind: WebSocket, Source: "PATH", URL: "wss://h:1/p?q", Token: "t", TLS: TLSFiles{"HOME/ca.pem", "/c.pem", "HOME/c/key"}, ConnectTimeout: 1500 * time.Millisecond, InitializeTimeout: 20 * time.Second,
	}
	ssh := Spec{ID: "ssh-dev", Kind: Stdio, Source: "PATH", Program: "ssh", Args: []string{"dev", "codex"}, Dir: "HOME/work", Env: []string{"A=1", "B=2"}, InitializeTimeout: 1}
	for _, tt := range []struct {
		name, head, defaults string
		want                 []Spec
		ids                  string
	}{
		{"local is the default", "", "local", []Spec{builtIn, devbox, ssh}, "local devbox ssh-dev"},
		{"without local there is none", "include_local = false", "", []Spec{devbox, ssh}, "devbox ssh-dev"},
		{"a default", "default = \" ssh-dev \"", "ssh-dev", []Spec{builtIn, devbox, ssh}, "ssh-dev local devbox"},
		{"no default", "default = \"None\"", "", []Spec{builtIn, devbox, ssh}, "local devbox ssh-dev"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := load(t, tt.head+both, nil)
			if want := (Config{Default: tt.defaults, Environments: tt.want, Source: "PATH"}); err != "" || !reflect.DeepEqual(got, want) {
				t.Errorf("%#v, %q; want %#v", got, err, want)
			}
			if ids := strings.Join(got.IDs(), " "); ids != tt.ids {
				t.Errorf("ids are %q, want %q", ids, tt.ids)
			}
		})
	}
}

func TestAddressesHoldNoSecrets(t *testing.T) {
	for url, want := range map[string]string{
		"ws://h:1":                 "ws://h:1",
		"wss://u:p@h:1/a@b?t=1#x":  "wss://h:1/a@b",
		"wss://u:p@q@h":            "wss://h",
		"u:p@h/x?y":                "h/x",
		"wss://h?role=harness&t=s": "wss://h",
	} {
		if got := (Spec{Kind: WebSocket, URL: url}).Address(); got != want {
			t.Errorf("%s: got %s, want %s", url, got, want)
		}
	}
	s := Spec{Kind: Stdio, Program: "ssh", Args: []string{"secret"}, Token: "secret", Registry: Registry{Token: "secret"}}
	if text := s.Address() + fmt.Sprintf("%v %+v %#v", s.Token, s.Registry, s.Token); strings.Contains(text, "secret") {
		t.Errorf(`got %v, want a text without "secret"`, text)
	}
}

func FuzzParseFile(f *testing.F) {
	for _, text := range []string{
		"default = \"none\"", "[[environments]]\nid = \"x\"\nurl = \"ws://h\"", "[environments]",
		"environments = [{id = \"a\", program = \"b\", env = {A = \"b\"}}]", "[[environments]]\nid = \"x\"\nconnect_timeout_sec = 1e300",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := parseFile(text, "/home/"+FileName, "/home")
		if err != nil {
			return
		}
		for _, s := range c.Environments {
			if found, ok := c.Find(s.ID); !ok || !reflect.DeepEqual(found, s) || s.Kind != Local && checkID(s.ID) != nil {
				t.Errorf("%q gives %+v", text, s)
			}
			if s.ConnectTimeout < 0 || s.InitializeTimeout < 0 || (s.Kind == WebSocket) == (s.URL == "") || (s.Kind == Stdio) == (s.Program == "") {
				t.Errorf("%q gives %+v", text, s)
			}
		}
	})
}

func TestErrorsKnowTheFile(t *testing.T) {
	home := t.TempDir()
	path := filepath.Join(home, FileName)
	if err := os.WriteFile(path, []byte("default = \"y\""), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(LoadOptions{Home: func() (string, error) { return home, nil }, Getenv: func(string) string { return "" }})
	var file *FileError
	var rule *execclient.ProtocolError
	if !errors.As(err, &file) || file.Path != path || !errors.As(err, &rule) {
		t.Errorf("got error %#v; want errors.As(err, &file), file.Path %v, errors.As(err, &rule)", err, path)
	}
}
