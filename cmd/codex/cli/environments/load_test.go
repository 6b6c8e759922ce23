package environments

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"codex.internal/cmd/codex/cli/cmdutil"
	"codex.internal/pkg/execenv"
)

func TestAdviceOnEnvironments(t *testing.T) {
	const url, id, token = 0, 1, 2
	for _, tt := range []struct {
		name, file string
		set        []int // which variables of a registry are set
		id         string
		want       string // the expected advice
	}{
		{name: "nothing"},
		{name: "a rule of the file", file: "[[environments]]\nid = \"x\"", want: "hint: the file is PATH\n"},
		{name: "a file that names itself", file: "default = "},
		{name: "no id, no token", set: []int{url}, want: "hint: not set: CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID, CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN; codex remote --env ID does without CODEX_EXEC_SERVER_NOISE_ENVIRONMENT_ID\n"},
		{name: "no token", set: []int{url, id}, want: "hint: not set: CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN\n"},
		{name: "an id in place of the variable", set: []int{url}, id: "box", want: "hint: not set: CODEX_EXEC_SERVER_NOISE_AUTH_TOKEN\n"},
		{name: "an id, which is enough", set: []int{url, token}, id: "box"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			home := t.TempDir()
			path := filepath.Join(home, execenv.FileName)
			if tt.file != "" {
				if err := os.WriteFile(path, []byte(tt.file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			t.Setenv("CODEX_HOME", home)
			for _, name := range append([]string{execenv.URLVariable}, execenv.NoiseVariables...) {
				t.Setenv(name, "")
			}
			for _, i := range tt.set {
				t.Setenv(execenv.NoiseVariables[i], "https://r")
			}
			_, err := Load(tt.id)
			if got := strings.ReplaceAll(cmdutil.AdviceOn(err), path, "PATH"); got != tt.want {
				t.Errorf("%v: %q, want %q", err, got, tt.want)
			}
		})
	}
}
