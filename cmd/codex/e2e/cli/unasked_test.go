package cli

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"codex.internal/cmd/codex/e2e/harness"
)

// generous is a server on standard input and output that sends whole trees, even if a part is
// requested.
func generous() int {
	cmd := exec.Command(os.Args[2], "exec-server", "--listen", "stdio")
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	in, err := cmd.StdinPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		return 1
	}
	lines := bufio.NewReader(os.Stdin)
	for {
		line, err := lines.ReadBytes('\n')
		if err != nil {
			_ = in.Close()
			_ = cmd.Wait()
			return 0
		}
		if _, err := in.Write(everything(line)); err != nil {
			return 1
		}
	}
}

// everything replaces a request for an archive by a request for the whole tree.
func everything(line []byte) []byte {
	var request map[string]any
	if json.Unmarshal(line, &request) != nil || request["method"] != "fs/openArchive" {
		return line
	}
	params, _ := request["params"].(map[string]any)
	delete(params, "paths")
	delete(params, "exclude")
	line, _ = json.Marshal(request)
	return append(line, '\n')
}

// TestCopiesTakeOnlyWhatTheyAskFor: a server sends more than was requested. Local files that
// git and --exclude leave out are not changed.
func TestCopiesTakeOnlyWhatTheyAskFor(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	harness.Must(t, err)
	home, env := harness.HomeDirectory(t, map[string]string{"environments.toml": `[[environments]]
id = "generous"
program = "` + self + `"
args = ["generous", "` + harness.Codex + `"]
`})
	for _, tt := range []struct {
		name string
		args []string
		want string
	}{
		{"sync", []string{"sync", "--git", "--exclude", "*.key"}, "a=new d/ d/x=new"},
		{"sync without a directory", []string{"sync", "--git", "--exclude", "d"}, "a=new id.key=new"},
		{"cp", []string{"cp", "-rp", "--exclude", ".git", "--exclude", "*.key"}, "a=new d/ d/x=new"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for _, name := range []string{"a", "d/x", "id.key", "d/id.key", ".git/hooks/post-checkout"} {
				writeText(t, filepath.Join(dir, "source", name), "new")
			}
			target := filepath.Join(dir, "target")
			to := target
			if tt.args[0] == "cp" {
				harness.Must(t, os.Mkdir(target, 0o755))
				to, target = target, filepath.Join(target, "source")
			}
			args := append([]string{"remote", "--env", "generous", tt.args[0]}, tt.args[1:]...)
			_, errs, code := harness.RunWith(t, env, home, "", append(args, ":"+dir+"/source", to)...)
			if got := contents(t, target); got != tt.want || code != 1 {
				t.Errorf("%d %q: %q, want %q", code, errs, got, tt.want)
			}
		})
	}
}
