package home

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"
)

func TestLoadConfig(t *testing.T) {
	for _, tt := range []struct {
		name, text string
		overrides  []string
		strict     bool
		want       Config
		err        string // PATH stands for the path of the file
	}{
		{name: "no file", strict: true},
		{name: "what is known", text: "chatgpt_base_url = \"https://x\"\nmodel = \"m\"\n[tui]\nanything = 1\n", strict: true, want: Config{ChatGPTBaseURL: "https://x"}},
		{name: "one workspace", text: `forced_chatgpt_workspace_id = "a"`, want: Config{ForcedWorkspaceIDs: []string{"a"}}},
		{name: "two workspaces", text: `forced_chatgpt_workspace_id = ["a", "b"]`, want: Config{ForcedWorkspaceIDs: []string{"a", "b"}}},
		{name: "no workspace", text: `forced_chatgpt_workspace_id = [1]`, err: "PATH:1:32: invalid type: integer, expected a string"},
		{name: "unknown name", text: "nope = 1", strict: true, err: "PATH:1:1: unknown configuration field `nope`"},
		{name: "unknown table", text: "model = \"m\"\n[nope]\na = 1", strict: true, err: "PATH:2:2: unknown configuration field `nope`"},
		{name: "unknown array of tables", text: "\n[[nope.x]]\na = 1", strict: true, err: "PATH:2:3: unknown configuration field `nope`"},
		{name: "unknown name with dots", text: "a.b = 1\nc = 2", strict: true, err: "PATH:1:1: unknown configuration field `a`"},
		{name: "unknown names may be for others", text: "nope = 1"},
		{name: "no TOML", text: "model = \"m\"\nmodel = ", err: "PATH:2:8: expected value, not end of input"},
		{name: "another type", text: "chatgpt_base_url = 5", err: "PATH:1:20: invalid type: integer, expected a string"},
		{name: "overrides", text: `chatgpt_base_url = "a"`, overrides: []string{"chatgpt_base_url='b'", "forced_login_method = api", "tui.x=1"}, strict: true, want: Config{ChatGPTBaseURL: "b", ForcedLoginMethod: "api"}},
		{name: "an override that is no TOML", overrides: []string{"chatgpt_base_url=https://x/ y"}, want: Config{ChatGPTBaseURL: "https://x/ y"}},
		{name: "an override of two lines is one string", overrides: []string{"chatgpt_base_url=1\nmodel=2"}, want: Config{ChatGPTBaseURL: "1\nmodel=2"}},
		{name: "an override of another type", overrides: []string{"chatgpt_base_url=5"}, err: "-c chatgpt_base_url: invalid type: integer, expected a string"},
		{name: "an unknown way to sign in", text: "\nforced_login_method = \"API\"", err: "PATH:2:23: unknown variant `API`, expected `chatgpt` or `api`"},
		{name: "an unknown store", text: `cli_auth_credentials_store = "vault"`, err: "PATH:1:30: unknown variant `vault`, expected one of `file`, `keyring`, `auto`, `ephemeral`"},
		{name: "known values", text: "forced_login_method = \"chatgpt\"\ncli_auth_credentials_store = \"auto\"", want: Config{ForcedLoginMethod: "chatgpt", CredentialsStore: "auto"}},
		{name: "a way to sign in of another type", text: "forced_login_method = 5", err: "PATH:1:23: invalid type: integer, expected a string"},
		{name: "an override that is unknown as a value", overrides: []string{"forced_login_method=x"}, err: "-c forced_login_method: unknown variant `x`, expected `chatgpt` or `api`"},
		{name: "an override without a value", overrides: []string{"foo"}, err: "Invalid override (missing '='): foo"},
		{name: "an override without a key", overrides: []string{"=5"}, err: "Empty key in override: =5"},
		{name: "an override that is unknown", overrides: []string{"nope.x=1"}, strict: true, err: "unknown configuration field `nope` in -c/--config override"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, "config.toml")
			if tt.text != "" {
				if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			got, err := LoadConfig(home, tt.overrides, tt.strict)
			text := ""
			if err != nil {
				text = err.Error()
			}
			var at *ConfigError
			if errors.As(err, &at) {
				if at.Path != path {
					t.Errorf("the path is %s", at.Path)
				}
				at.Path = "PATH"
				text = at.Error()
			}
			if text != tt.err || err == nil && !reflect.DeepEqual(got, tt.want) {
				t.Errorf("%+v, %q; want %+v, %q", got, text, tt.want, tt.err)
			}
		})
	}
}

func TestConfigNamesAreSorted(t *testing.T) {
	if !slices.IsSorted(configNames) {
		t.Error("they are not, and are searched as if they were")
	}
}

func FuzzDecodeConfig(f *testing.F) {
	for _, text := range []string{"model = 1", "[a.b]\nc = 1", "[[a]]\n", "forced_chatgpt_workspace_id = [1]", "chatgpt_base_url = \"", "forced_login_method = 'x'", "\"a\".b = {c = 1}"} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		var c Config
		if err := decodeConfig(text, &c, true); err != nil && (err.Line < 1 || err.Column < 1) {
			t.Errorf("%q: got error %v; want err.Line at least 1, err.Column at least 1", text, err)
		}
	})
}
